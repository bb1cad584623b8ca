"""Overview: totals, charts and queues."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from windlass.core.queue import Minute, QueueStats, QueueSurvey, survey_of
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.response_cache import cached
from windlass.dashboard.routes import DashboardRoutes
from windlass.dashboard.views.formats import count
from windlass.dashboard.views.queue_names import EXACT_MAX, queue_names
from windlass.dashboard.views.survey_note import describe_survey
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

ROWS_MAX = 50  # the busiest queues; the charts have the 500 busiest
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
    survey: QueueSurvey
    throughput: Throughput
    attention: AttentionView
    notices: list[QueueNotice]

    @property
    def survey_note(self) -> str:
        """Sentence about figures that were not all read now; empty: they were."""
        return describe_survey(self.survey, self.now_ms)


class OverviewData(msgspec.Struct, frozen=True):
    """Data of all queues that some viewers may see, shared by these viewers."""

    now_ms: int
    survey: QueueSurvey
    shown: list[QueueStats]  # by name: a table whose rows move while it updates is hard to read
    histories: dict[str, list[Minute]]


@routes.page("/", "overview.html", section="overview", query=OverviewQuery)
async def overview(page: PageContext[OverviewQuery]) -> OverviewView:
    """Show the totals and the busiest queues."""
    span, state, patterns = page.query.span, page.context.state, page.principal.queues
    if patterns:
        data = await _read_data(state, TIME_RANGES[span], patterns)
    else:
        data = await cached(state, f"overview {span}", lambda: _read_data(state, TIME_RANGES[span], ()))
    page.now_ms = data.now_ms
    throughput = compute_throughput(list(data.histories.values()), data.now_ms, span)
    return OverviewView(
        data.now_ms,
        data.survey.totals,
        [_row(queue, data.histories.get(queue.queue, ()), throughput) for queue in data.shown],
        data.survey,
        throughput,
        await read_attention(page),
        await read_notices(state, data.survey.busiest, patterns),
    )


async def _read_data(state: AppState, chosen: TimeRange, patterns: tuple[str, ...]) -> OverviewData:
    service = state.service
    now_ms = await service.now()
    names = await queue_names(state, patterns)
    if len(names) <= EXACT_MAX:
        survey = survey_of(await service.stats(names) if names else [], now_ms)
        shown = survey.busiest[:ROWS_MAX]
    else:
        survey = await service.survey(patterns)
        # Read again, because an action of the viewer may be newer than the survey.
        shown = await service.stats([stats.queue for stats in survey.busiest[:ROWS_MAX]])
    busiest = [stats.queue for stats in survey.busiest]
    histories: dict[str, list[Minute]] = {}
    if busiest:
        histories = await service.histories(busiest, step_minutes=chosen.step_minutes, steps=chosen.steps)
    return OverviewData(now_ms, survey, sorted(shown, key=lambda queue: queue.queue), histories)


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
