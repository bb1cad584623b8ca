"""What happened over time, as series for charts: the same for one queue and for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from ..core.queue import Minute
from ..core.spans import added, percentile

MINUTE_MS = 60_000
Period: TypeAlias = Literal["hour", "day"]
STEPS: dict[Period, tuple[int, int]] = {"hour": (1, 60), "day": (15, 96)}  # minutes of a step, steps
COUNTED = ("enqueued", "finished", "failed")


class Flow(msgspec.Struct, frozen=True, kw_only=True):
    """One value per step, the oldest first; a latency is 0 where nothing was taken or finished."""

    period: Period
    times_ms: list[int]
    enqueued: list[int]
    finished: list[int]
    failed: list[int]
    wait_p50: list[int]
    wait_p95: list[int]
    run_p50: list[int]
    run_p95: list[int]


def flow_of(histories: Mapping[str, Sequence[Minute]], now_ms: int, period: Period) -> Flow:
    step_minutes, steps = STEPS[period]
    step_ms = step_minutes * MINUTE_MS
    last_ms = now_ms // step_ms * step_ms
    times_ms = [last_ms - step_ms * back for back in range(steps - 1, -1, -1)]
    by_time: dict[int, list[Minute]] = {at_ms: [] for at_ms in times_ms}
    for history in histories.values():
        for one in history:
            if one.at_ms in by_time:
                by_time[one.at_ms].append(one)
    columns = list(by_time.values())
    return Flow(
        period=period,
        times_ms=times_ms,
        **{what: [sum(getattr(one, what) for one in column) for column in columns] for what in COUNTED},
        **_latencies("wait", [added(one.waits for one in column) for column in columns]),
        **_latencies("run", [added(one.runs for one in column) for column in columns]),
    )


def _latencies(what: str, spans: Sequence[tuple[int, ...]]) -> dict[str, list[int]]:
    return {f"{what}_p{share}": [percentile(one, share / 100) or 0 for one in spans] for share in (50, 95)}
