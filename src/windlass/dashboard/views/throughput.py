"""What happened over time, as series for charts: the same for one queue and for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from windlass.core.queue import Minute
from windlass.core.stats.rollup import sum_queues

MINUTE_MS = 60_000
SpanName: TypeAlias = Literal["hour", "day"]
LATELY = 5  # full minutes that a rate is taken over


class Span(msgspec.Struct, frozen=True):
    title: str
    step_minutes: int
    steps: int

    def times_ms(self, now_ms: int) -> list[int]:
        """When its steps begin, the oldest first."""
        step_ms = self.step_minutes * MINUTE_MS
        last_ms = now_ms // step_ms * step_ms
        return [last_ms - step_ms * back for back in range(self.steps - 1, -1, -1)]


SPANS: dict[SpanName, Span] = {"hour": Span("Last hour", 1, 60), "day": Span("Last day", 15, 96)}


class Flow(msgspec.Struct, frozen=True):
    """One value per step, the oldest first: jobs per minute; milliseconds, None where nothing was taken or finished."""

    span: SpanName
    times_ms: list[int]
    enqueued: list[float]
    finished: list[float]
    failed: list[float]
    waits: tuple[list[int | None], list[int | None]]  # median, 95 percent
    runs: tuple[list[int | None], list[int | None]]

    @property
    def finished_lately(self) -> float:
        return lately(self.finished, SPANS[self.span])


def flow_of(histories: Sequence[Sequence[Minute]], now_ms: int, span: SpanName) -> Flow:
    chosen = SPANS[span]
    times_ms = chosen.times_ms(now_ms)
    minutes = by_time(sum_queues(histories), times_ms)
    return Flow(
        span,
        times_ms,
        rates(minutes, "enqueued", chosen),
        rates(minutes, "finished", chosen),
        rates(minutes, "failed", chosen),
        (_told(minutes, "wait_p50_ms"), _told(minutes, "wait_p95_ms")),
        (_told(minutes, "run_p50_ms"), _told(minutes, "run_p95_ms")),
    )


def by_time(minutes: Sequence[Minute], times_ms: Sequence[int]) -> list[Minute | None]:
    known: Mapping[int, Minute] = {minute.at_ms: minute for minute in minutes}
    return [known.get(at_ms) for at_ms in times_ms]


def rates(minutes: Sequence[Minute | None], what: str, chosen: Span) -> list[float]:
    """Per minute, however long a step is."""
    return [0 if one is None else round(getattr(one, what) / chosen.step_minutes, 2) for one in minutes]


def lately(values: Sequence[float], chosen: Span) -> float:
    """Per minute, over the last full ones."""
    steps = max(1, LATELY // chosen.step_minutes)
    return sum(values[-steps - 1 : -1]) / steps


def _told(minutes: Sequence[Minute | None], what: str) -> list[int | None]:
    return [None if one is None else getattr(one, what) for one in minutes]
