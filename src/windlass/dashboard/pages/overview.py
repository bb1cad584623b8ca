"""The first page: what every queue holds and does, and what happened in all of them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from windlass.core.queue import Minute, QueueStats
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.response_cache import cached
from windlass.dashboard.routes import DashboardRoutes
from windlass.dashboard.views.figures import count
from windlass.dashboard.views.queue_names import queue_names
from windlass.dashboard.views.throughput import TIME_RANGES, Throughput, TimeRange, TimeRangeName, align_minutes, compute_throughput, recent_rate, rates_per_minute
from windlass.web.app.app_state import AppState

routes = DashboardRoutes()

TOTALS = ("queued", "running", "scheduled", "waiting", "failed")
ROWS_MAX = 50  # of the table; the busiest
QUEUES_MAX = 500  # whose history is added up; the busiest
ABANDONED_AFTER_MS = 60_000  # jobs wait, and nobody takes any


class OverviewQuery(msgspec.Struct, frozen=True, kw_only=True):
    span: TimeRangeName = "hour"


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
    totals: dict[str, int]
    rows: list[QueueRow]
    queue_count: int
    flow: Throughput


class OverviewData(msgspec.Struct, frozen=True):
    """What the engine told, of all queues."""

    now_ms: int
    stats: list[QueueStats]
    histories: dict[str, list[Minute]]


@routes.page("/", "overview.html", section="overview", query=OverviewQuery)
async def overview(page: PageContext[OverviewQuery]) -> OverviewView:
    """What every queue holds and does."""
    span, state = page.query.span, page.context.state
    seen = await cached(state, f"overview {span}", lambda: _read_data(state, TIME_RANGES[span]))
    page.now_ms = seen.now_ms
    stats = [one for one in seen.stats if page.may_use(one.queue)]
    flow = compute_throughput([seen.histories.get(one.queue, []) for one in stats], seen.now_ms, span)
    # In the order of their names: rows that change places cannot be read.
    shown = sorted(stats[:ROWS_MAX], key=lambda one: one.queue)
    return OverviewView(
        seen.now_ms,
        {what: sum(getattr(one, what) for one in stats) for what in TOTALS},
        [_row(one, seen.histories.get(one.queue, ()), flow) for one in shown],
        len(stats),
        flow,
    )


async def _read_data(state: AppState, chosen: TimeRange) -> OverviewData:
    service = state.service
    now_ms = await service.now()
    names = await queue_names(state)
    stats = sorted(await service.stats(names), key=_busy_order) if names else []
    busiest = [one.queue for one in stats[:QUEUES_MAX]]
    histories: dict[str, list[Minute]] = {}
    if busiest:
        histories = await service.histories(busiest, step_minutes=chosen.step_minutes, steps=chosen.steps)
    return OverviewData(now_ms, stats, histories)


def _busy_order(stats: QueueStats) -> tuple[int, int, str]:
    return -(stats.queued + stats.running), -stats.failed, stats.queue


def _row(stats: QueueStats, history: Sequence[Minute], flow: Throughput) -> QueueRow:
    span = TIME_RANGES[flow.span]
    minutes = align_minutes(history, flow.times_ms)
    finished, failed = (rates_per_minute(minutes, what, span) for what in ("finished", "failed"))
    ended = (sum(one.finished for one in history), sum(one.failed for one in history))
    label = f"{span.title}: {count(ended[0])} finished, {count(ended[1])} failed"
    return QueueRow(stats, finished, failed, recent_rate(finished, span), recent_rate(failed, span), label, _is_abandoned(stats))


def _is_abandoned(stats: QueueStats) -> bool:
    """Jobs wait, and nobody is there to take them."""
    if stats.is_paused or stats.running or stats.waiting_takers:
        return False
    return (stats.oldest_age_ms or 0) >= ABANDONED_AFTER_MS
