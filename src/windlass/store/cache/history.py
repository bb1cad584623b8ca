"""What happened in queues, as one process remembers it: steps that are over do not change, so what is drawn again
and again asks the engine for its last minutes only."""

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
FEW_MINUTES = 2  # as in lua/queues/history.lua: of so few, only these are read
HASHES_PER_CALL = 12  # an hour of a busy queue has some thousand counters
QUEUES_PER_CALL = 50  # of which only a few minutes are asked
BACK = 48 * 60  # minutes; a clock that was set back asks for no more
STEPS_KEPT = 100_000  # some 30 MB
QUEUES_KEPT = 10_000


class _Past(NamedTuple):
    """All that happened from one instant to another, in steps."""

    from_ms: int
    until_ms: int
    steps: list[Minute]


class HistoryCache:
    def __init__(self) -> None:
        self._past: OrderedDict[tuple[str, int], _Past] = OrderedDict()  # by queue and step, the last used at the end
        self._kept = 0

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
        for (home, missing_ms), group in groups.items():
            for part in _parts(group, missing_ms, now_ms):
                told: QueueHistories = yield history(part, BACK, home, first=missing_ms // MINUTE_MS)
                for name, minutes in zip(part, told.minutes, strict=True):
                    found[name] = self._learn((name, step_ms), roll_up(minutes, step_ms), window_ms, told.now_ms)
        return {name: found[name] for name in names}

    def _missing_from(self, name: str, step_ms: int, window_ms: int) -> int:
        past = self._past.get((name, step_ms))
        return past.until_ms if past and past.from_ms <= window_ms <= past.until_ms else window_ms

    def _learn(self, key: tuple[str, int], new: list[Minute], window_ms: int, now_ms: int) -> list[Minute]:
        """Answers the whole window; what of it is over is kept."""
        step_ms = key[1]
        past = self._past.pop(key, None)
        self._kept -= len(past.steps) if past else 0
        old = [one for one in past.steps if one.at_ms >= window_ms] if past and past.until_ms >= window_ms else []
        known = {one.at_ms: one for one in (*old, *new)}
        whole = [known[at_ms] for at_ms in sorted(known)]
        until_ms = now_ms // step_ms * step_ms
        over = [one for one in whole if one.at_ms < until_ms]
        self._past[key] = _Past(window_ms, until_ms, over)
        self._kept += len(over)
        self._forget()
        return whole

    def _forget(self) -> None:
        while self._kept > STEPS_KEPT or len(self._past) > QUEUES_KEPT:
            _, past = self._past.popitem(last=False)
            self._kept -= len(past.steps)


def _parts(names: Sequence[str], from_ms: int, now_ms: int) -> list[Sequence[str]]:
    """As many queues per call as their counters allow."""
    hours = now_ms // HOUR_MS - from_ms // HOUR_MS + 1
    is_little = now_ms // MINUTE_MS - from_ms // MINUTE_MS < FEW_MINUTES
    at_once = QUEUES_PER_CALL if is_little else max(1, HASHES_PER_CALL // hours)
    return [names[start : start + at_once] for start in range(0, len(names), at_once)]
