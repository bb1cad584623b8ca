"""The first page: what every queue holds and does, and what happened in all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from ...core.minutes import over_all
from ...core.queue import Minute, QueueStats
from ...web.routing import Office
from ..figures import count
from ..known_queues import queue_names
from ..routes import DashboardRoutes
from ..sharing import shared
from ..visit import Visit

routes = DashboardRoutes()

MINUTE_MS = 60_000
TOTALS = ("queued", "running", "scheduled", "waiting", "failed")
ROWS_MAX = 50  # of the table; the busiest
QUEUES_MAX = 500  # whose history is added up; the busiest
LATELY = 5  # full minutes that a rate is taken over
ABANDONED_AFTER_MS = 60_000  # jobs wait, and nobody takes any


class Span(msgspec.Struct, frozen=True):
    title: str
    step_minutes: int
    steps: int


SPANS = {"hour": Span("Last hour", 1, 60), "day": Span("Last day", 15, 96)}


class OverviewQuery(msgspec.Struct, frozen=True, kw_only=True):
    span: Literal["hour", "day"] = "hour"


class QueueRow(msgspec.Struct, frozen=True):
    stats: QueueStats
    finished: list[float]  # per minute, oldest first
    failed: list[float]
    finished_lately: float
    failed_lately: float
    label: str  # of the picture
    is_abandoned: bool


class OverviewView(msgspec.Struct, frozen=True):
    now_ms: int
    span: str
    totals: dict[str, int]
    per_minute: float
    rows: list[QueueRow]
    queue_count: int
    times_ms: list[int]
    enqueued: list[float]
    finished: list[float]
    failed: list[float]
    waits: tuple[list[int | None], list[int | None]]  # median, 95 percent
    runs: tuple[list[int | None], list[int | None]]


class Seen(msgspec.Struct, frozen=True):
    """What the engine told, of all queues."""

    now_ms: int
    stats: list[QueueStats]
    histories: dict[str, list[Minute]]


@routes.page("/", "overview.html", page="overview", query=OverviewQuery)
async def overview(visit: Visit[OverviewQuery]) -> OverviewView:
    """What every queue holds and does."""
    chosen = SPANS[visit.query.span]
    office = visit.ask.office
    seen = await shared(office, f"overview {visit.query.span}", lambda: _look(office, chosen))
    visit.now_ms = seen.now_ms
    stats = [one for one in seen.stats if visit.may_use(one.queue)]
    times_ms = _times(seen.now_ms, chosen)
    # In the order of their names: rows that change places cannot be read.
    shown = sorted(stats[:ROWS_MAX], key=lambda one: one.queue)
    rows = [_row(one, seen.histories.get(one.queue, ()), times_ms, chosen) for one in shown]
    summed = _by_time(over_all(seen.histories[one.queue] for one in stats if one.queue in seen.histories), times_ms)
    finished = _rates(summed, "finished", chosen)
    return OverviewView(
        seen.now_ms,
        visit.query.span,
        {what: sum(getattr(one, what) for one in stats) for what in TOTALS},
        _lately(finished, chosen),
        rows,
        len(stats),
        times_ms,
        _rates(summed, "enqueued", chosen),
        finished,
        _rates(summed, "failed", chosen),
        (_told(summed, "wait_p50_ms"), _told(summed, "wait_p95_ms")),
        (_told(summed, "run_p50_ms"), _told(summed, "run_p95_ms")),
    )


async def _look(office: Office, chosen: Span) -> Seen:
    service = office.service
    now_ms = await service.now()
    names = await queue_names(office)
    stats = sorted(await service.stats(names), key=_business) if names else []
    busiest = [one.queue for one in stats[:QUEUES_MAX]]
    histories: dict[str, list[Minute]] = {}
    if busiest:
        histories = await service.histories(busiest, step_minutes=chosen.step_minutes, steps=chosen.steps)
    return Seen(now_ms, stats, histories)


def _business(stats: QueueStats) -> tuple[int, int, str]:
    return -(stats.queued + stats.running), -stats.failed, stats.queue


def _times(now_ms: int, chosen: Span) -> list[int]:
    step_ms = chosen.step_minutes * MINUTE_MS
    last_ms = now_ms // step_ms * step_ms
    return [last_ms - step_ms * back for back in range(chosen.steps - 1, -1, -1)]


def _by_time(minutes: Sequence[Minute], times_ms: Sequence[int]) -> list[Minute | None]:
    known: Mapping[int, Minute] = {minute.at_ms: minute for minute in minutes}
    return [known.get(at_ms) for at_ms in times_ms]


def _rates(minutes: Sequence[Minute | None], what: str, chosen: Span) -> list[float]:
    """Per minute, however long a step is."""
    return [0 if one is None else round(getattr(one, what) / chosen.step_minutes, 2) for one in minutes]


def _told(minutes: Sequence[Minute | None], what: str) -> list[int | None]:
    return [None if one is None else getattr(one, what) for one in minutes]


def _lately(rates: Sequence[float], chosen: Span) -> float:
    """Per minute, over the last full ones."""
    steps = max(1, LATELY // chosen.step_minutes)
    return sum(rates[-steps - 1 : -1]) / steps


def _row(stats: QueueStats, history: Sequence[Minute], times_ms: Sequence[int], chosen: Span) -> QueueRow:
    minutes = _by_time(history, times_ms)
    finished, failed = (_rates(minutes, what, chosen) for what in ("finished", "failed"))
    ended = (sum(one.finished for one in history), sum(one.failed for one in history))
    label = f"{chosen.title}: {count(ended[0])} finished, {count(ended[1])} failed"
    return QueueRow(
        stats, finished, failed, _lately(finished, chosen), _lately(failed, chosen), label, _is_abandoned(stats)
    )


def _is_abandoned(stats: QueueStats) -> bool:
    """Jobs wait, and nobody is there to take them."""
    if stats.is_paused or stats.running or stats.waiting_takers:
        return False
    return (stats.oldest_age_ms or 0) >= ABANDONED_AFTER_MS
