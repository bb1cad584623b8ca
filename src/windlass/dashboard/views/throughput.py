"""Throughput and latency over time as series for charts, for one queue or all queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from windlass.core.queue import Minute
from windlass.core.stats.rollup import sum_queues

MINUTE_MS = 60_000
TimeRangeName: TypeAlias = Literal["quarter", "hour", "day"]
RECENT_MINUTES = 5  # full minutes over which a current rate is averaged


class TimeRange(msgspec.Struct, frozen=True):
    title: str
    step_minutes: int
    steps: int

    @property
    def recent_minutes(self) -> int:
        return max(RECENT_MINUTES, self.step_minutes)

    def times_ms(self, now_ms: int) -> list[int]:
        """Return the start of each step, the oldest first."""
        step_ms = self.step_minutes * MINUTE_MS
        last_ms = now_ms // step_ms * step_ms
        return [last_ms - step_ms * back for back in range(self.steps - 1, -1, -1)]


TIME_RANGES: dict[TimeRangeName, TimeRange] = {
    "quarter": TimeRange("Last 15 minutes", 1, 15),
    "hour": TimeRange("Last hour", 1, 60),
    "day": TimeRange("Last day", 15, 96),
}


class Throughput(msgspec.Struct, frozen=True):
    """One value per step, the oldest first: jobs per minute, and latencies in milliseconds. None: no job was taken or
    finished in that step."""

    span: TimeRangeName
    times_ms: list[int]
    enqueued: list[float]
    finished: list[float]
    failed: list[float]
    waits: tuple[list[int | None], list[int | None]]  # median, 95th percentile
    runs: tuple[list[int | None], list[int | None]]

    @property
    def title(self) -> str:
        return TIME_RANGES[self.span].title

    @property
    def rate_title(self) -> str:
        """The time over which current rates are averaged."""
        return f"last {TIME_RANGES[self.span].recent_minutes} minutes"

    @property
    def finished_rate(self) -> float:
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


def rates_per_minute(minutes: Sequence[Minute | None], counter: str, chosen: TimeRange) -> list[float]:
    """Return a counter per minute, for steps of any length."""
    return [0 if minute is None else round(getattr(minute, counter) / chosen.step_minutes, 2) for minute in minutes]


def recent_rate(values: Sequence[float], chosen: TimeRange) -> float:
    """Average the rate per minute over the last full steps."""
    steps = chosen.recent_minutes // chosen.step_minutes
    return sum(values[-steps - 1 : -1]) / steps


def _values(minutes: Sequence[Minute | None], field: str) -> list[int | None]:
    return [None if minute is None else getattr(minute, field) for minute in minutes]
