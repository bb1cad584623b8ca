"""Overview: totals, charts and queues."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from windlass.core.queue import Minute, QueueStats
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.response_cache import cached
from windlass.dashboard.routes import DashboardRoutes
from windlass.dashboard.views.formats import count
from windlass.dashboard.views.queue_names import queue_names
from windlass.dashboard.views.throughput import (
    TIME_RANGES,
    Throughput,
    TimeRange,
    TimeRangeName,
    align_minutes,
    compute_throughput,
    rates_per_minute,
    recent_rate,
)
from windlass.dashboard.views.unknown_names import QueueNotice, read_notices
from windlass.web.app.app_state import AppState

from .alerts.attention import AttentionView, read_attention

routes = DashboardRoutes()

TOTALS = ("queued", "running", "scheduled", "suspended", "waiting", "failures")
ROWS_MAX = 50  # the busiest queues
QUEUES_MAX = 500  # in the charts: the busiest queues
ABANDONED_AFTER_MS = 60_000  # age of the oldest waiting job


class OverviewQuery(msgspec.Struct, frozen=True, kw_only=True):
    span: TimeRangeName = "hour"


class QueueRow(msgspec.Struct, frozen=True):
    stats: QueueStats
    finished: list[float]  # per minute, oldest first
    failed: list[float]
    finished_rate: float
    failed_rate: float
    label: str  # of the chart
    is_abandoned: bool


class OverviewView(msgspec.Struct, frozen=True):
    now_ms: int
    totals: dict[str, int]
    rows: list[QueueRow]
    queue_count: int
    throughput: Throughput
    attention: AttentionView
    notices: list[QueueNotice]


class OverviewData(msgspec.Struct, frozen=True):
    """Data of all queues, shared by all viewers."""

    now_ms: int
    stats: list[QueueStats]
    histories: dict[str, list[Minute]]


@routes.page("/", "overview.html", section="overview", query=OverviewQuery)
async def overview(page: PageContext[OverviewQuery]) -> OverviewView:
    """Show the totals and the busiest queues."""
    span, state = page.query.span, page.context.state
    data = await cached(state, f"overview {span}", lambda: _read_data(state, TIME_RANGES[span]))
    page.now_ms = data.now_ms
    stats = [queue for queue in data.stats if page.may_use(queue.queue)]
    throughput = compute_throughput([data.histories.get(queue.queue, []) for queue in stats], data.now_ms, span)
    # Sorted by name: a table whose rows move while it updates is hard to read.
    shown = sorted(stats[:ROWS_MAX], key=lambda queue: queue.queue)
    return OverviewView(
        data.now_ms,
        {counter: sum(getattr(queue, counter) for queue in stats) for counter in TOTALS},
        [_row(queue, data.histories.get(queue.queue, ()), throughput) for queue in shown],
        len(stats),
        throughput,
        await read_attention(page),
        [notice for notice in await read_notices(state, data.stats) if page.may_use(notice.queue)],
    )


async def _read_data(state: AppState, chosen: TimeRange) -> OverviewData:
    service = state.service
    now_ms = await service.now()
    names = await queue_names(state)
    stats = sorted(await service.stats(names), key=_busy_order) if names else []
    busiest = [queue.queue for queue in stats[:QUEUES_MAX]]
    histories: dict[str, list[Minute]] = {}
    if busiest:
        histories = await service.histories(busiest, step_minutes=chosen.step_minutes, steps=chosen.steps)
    return OverviewData(now_ms, stats, histories)


def _busy_order(stats: QueueStats) -> tuple[int, int, str]:
    return -(stats.queued + stats.running), -stats.failures, stats.queue


def _row(stats: QueueStats, history: Sequence[Minute], throughput: Throughput) -> QueueRow:
    chosen = TIME_RANGES[throughput.span]
    minutes = align_minutes(history, throughput.times_ms)
    finished, failed = (rates_per_minute(minutes, counter, chosen) for counter in ("finished", "failed"))
    ended = (sum(minute.finished for minute in history), sum(minute.failed for minute in history))
    label = f"{chosen.title}: {count(ended[0])} finished, {count(ended[1])} failed"
    current = (recent_rate(finished, chosen), recent_rate(failed, chosen))
    return QueueRow(stats, finished, failed, *current, label, _is_abandoned(stats))


def _is_abandoned(stats: QueueStats) -> bool:
    """Tell whether jobs wait although no worker takes from the queue."""
    if stats.is_paused or stats.running or stats.waiting_takers:
        return False
    return (stats.oldest_age_ms or 0) >= ABANDONED_AFTER_MS
