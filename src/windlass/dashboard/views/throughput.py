"""What happened over time, as series for charts: the same for one queue and for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from windlass.core.queue import Minute
from windlass.core.stats.rollup import sum_queues

MINUTE_MS = 60_000
TimeRangeName: TypeAlias = Literal["hour", "day"]
RECENT_MINUTES = 5  # full minutes that a rate is taken over


class TimeRange(msgspec.Struct, frozen=True):
    title: str
    step_minutes: int
    steps: int

    def times_ms(self, now_ms: int) -> list[int]:
        """When its steps begin, the oldest first."""
        step_ms = self.step_minutes * MINUTE_MS
        last_ms = now_ms // step_ms * step_ms
        return [last_ms - step_ms * back for back in range(self.steps - 1, -1, -1)]


TIME_RANGES: dict[TimeRangeName, TimeRange] = {"hour": TimeRange("Last hour", 1, 60), "day": TimeRange("Last day", 15, 96)}


class Throughput(msgspec.Struct, frozen=True):
    """One value per step, the oldest first: jobs per minute; milliseconds, None where nothing was taken or finished."""

    span: TimeRangeName
    times_ms: list[int]
    enqueued: list[float]
    finished: list[float]
    failed: list[float]
    waits: tuple[list[int | None], list[int | None]]  # median, 95 percent
    runs: tuple[list[int | None], list[int | None]]

    @property
    def finished_lately(self) -> float:
        return recent_rate(self.finished, TIME_RANGES[self.span])


def compute_throughput(histories: Sequence[Sequence[Minute]], now_ms: int, span: TimeRangeName) -> Throughput:
    chosen = TIME_RANGES[span]
    times_ms = chosen.times_ms(now_ms)
    minutes = align_minutes(sum_queues(histories), times_ms)
    return Throughput(
        span,
        times_ms,
        rates_per_minute(minutes, "enqueued", chosen),
        rates_per_minute(minutes, "finished", chosen),
        rates_per_minute(minutes, "failed", chosen),
        (_values(minutes, "wait_p50_ms"), _values(minutes, "wait_p95_ms")),
        (_values(minutes, "run_p50_ms"), _values(minutes, "run_p95_ms")),
    )


def align_minutes(minutes: Sequence[Minute], times_ms: Sequence[int]) -> list[Minute | None]:
    known: Mapping[int, Minute] = {minute.at_ms: minute for minute in minutes}
    return [known.get(at_ms) for at_ms in times_ms]


def rates_per_minute(minutes: Sequence[Minute | None], what: str, chosen: TimeRange) -> list[float]:
    """Per minute, however long a step is."""
    return [0 if one is None else round(getattr(one, what) / chosen.step_minutes, 2) for one in minutes]


def recent_rate(values: Sequence[float], chosen: TimeRange) -> float:
    """Per minute, over the last full ones."""
    steps = max(1, RECENT_MINUTES // chosen.step_minutes)
    return sum(values[-steps - 1 : -1]) / steps


def _values(minutes: Sequence[Minute | None], what: str) -> list[int | None]:
    return [None if one is None else getattr(one, what) for one in minutes]
