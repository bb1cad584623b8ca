"""Cache of queue histories. Past steps do not change, so a repeated read asks the engine only for the last minutes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from windlass.core.queue import Minute
from windlass.core.stats.rollup import roll_up
from windlass.store.commands.command import EngineTime, Flow
from windlass.store.commands.queues import MINUTE_MS, QueueHistories, history

if TYPE_CHECKING:
    from windlass.store.store import Store

HOUR_MS = 60 * MINUTE_MS
FEW_MINUTES = 2  # as in lua/queues/history.lua: for so few minutes, it reads only their counters
HASHES_PER_CALL = 12  # an hour of a busy queue has some thousand counters
QUEUES_PER_CALL = 50  # if only a few minutes are read
MINUTES_MAX = 48 * 60  # bounds a read after the clock was set back
STEPS_MAX = 100_000  # some 30 MB
QUEUES_MAX = 10_000


class _CachedHistory(NamedTuple):
    """Complete history of a queue from `from_ms` to `until_ms`, in steps."""

    from_ms: int
    until_ms: int
    steps: list[Minute]


class HistoryCache:
    def __init__(self) -> None:
        # By queue and step; the last used is at the end.
        self._histories: OrderedDict[tuple[str, int], _CachedHistory] = OrderedDict()
        self._step_count = 0

    def read(self, store: Store, names: Sequence[str], step_minutes: int, steps: int) -> Flow[dict[str, list[Minute]]]:
        names = list(dict.fromkeys(names))
        step_ms = step_minutes * MINUTE_MS
        now_ms: int = yield EngineTime()
        window_ms = (now_ms // step_ms - steps + 1) * step_ms
        groups: dict[tuple[int, int], list[str]] = {}
        for name in names:
            missing_ms = self._missing_from(name, step_ms, window_ms)
            groups.setdefault((store.partition_of_queue(name), missing_ms), []).append(name)
        found: dict[str, list[Minute]] = {}
        for (partition, missing_ms), group in groups.items():
            for part in _split_names(group, missing_ms, now_ms):
                page: QueueHistories = yield history(part, MINUTES_MAX, partition, first=missing_ms // MINUTE_MS)
                for name, minutes in zip(part, page.minutes, strict=True):
                    found[name] = self._merge((name, step_ms), roll_up(minutes, step_ms), window_ms, page.now_ms)
        return {name: found[name] for name in names}

    def forget(self, queue: str) -> None:
        """Drop the steps of a queue that was removed."""
        for key in [key for key in self._histories if key[0] == queue]:
            self._step_count -= len(self._histories.pop(key).steps)

    def _missing_from(self, name: str, step_ms: int, window_ms: int) -> int:
        past = self._histories.get((name, step_ms))
        return past.until_ms if past and past.from_ms <= window_ms <= past.until_ms else window_ms

    def _merge(self, key: tuple[str, int], new: list[Minute], window_ms: int, now_ms: int) -> list[Minute]:
        """Return the steps of the whole window, and cache the steps that are over."""
        step_ms = key[1]
        past = self._histories.pop(key, None)
        self._step_count -= len(past.steps) if past else 0
        old = [step for step in past.steps if step.at_ms >= window_ms] if past and past.until_ms >= window_ms else []
        known = {step.at_ms: step for step in (*old, *new)}
        whole = [known[at_ms] for at_ms in sorted(known)]
        until_ms = now_ms // step_ms * step_ms
        over = [step for step in whole if step.at_ms < until_ms]
        self._histories[key] = _CachedHistory(window_ms, until_ms, over)
        self._step_count += len(over)
        self._evict()
        return whole

    def _evict(self) -> None:
        while self._step_count > STEPS_MAX or len(self._histories) > QUEUES_MAX:
            _, past = self._histories.popitem(last=False)
            self._step_count -= len(past.steps)


def _split_names(names: Sequence[str], from_ms: int, now_ms: int) -> list[Sequence[str]]:
    """Split queues into calls, so that no call reads too many counters."""
    hours = now_ms // HOUR_MS - from_ms // HOUR_MS + 1
    is_short = now_ms // MINUTE_MS - from_ms // MINUTE_MS < FEW_MINUTES
    at_once = QUEUES_PER_CALL if is_short else max(1, HASHES_PER_CALL // hours)
    return [names[start : start + at_once] for start in range(0, len(names), at_once)]
