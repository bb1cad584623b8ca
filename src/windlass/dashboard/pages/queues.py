"""List of queues; and one queue with its counts, throughput, lanes, limits, pauses and properties."""

from __future__ import annotations

import asyncio
from bisect import bisect_right

import msgspec

from windlass.core.explain.unknown_names import UnknownName
from windlass.core.queue import Lanes, Pause, QueueStats
from windlass.dashboard.forms.filters import exact_name
from windlass.dashboard.forms.queue_settings import Property, properties
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.routes import DashboardRoutes
from windlass.dashboard.views.not_found import render_missing
from windlass.dashboard.views.queue_names import names_containing, queue_names, was_seen
from windlass.dashboard.views.throughput import TIME_RANGES, Throughput, TimeRangeName, compute_throughput
from windlass.web.listener.messages import Response

from .limits import LimitRow, limit_row

routes = DashboardRoutes()

QUEUES_PER_PAGE = 100
LANES_PER_PAGE = 50


class QueuesQuery(msgspec.Struct, frozen=True, kw_only=True):
    search: str = ""
    after: str = ""


class QueuesView(msgspec.Struct, frozen=True):
    now_ms: int
    rows: list[QueueStats]
    count: int
    search: str
    following: str  # name after which the next page starts; empty: this is the last page


@routes.page("/queues", "queues.html", section="queues", query=QueuesQuery)
async def queues(page: PageContext[QueuesQuery]) -> QueuesView:
    """List queues by name."""
    query = page.query
    reading_names = queue_names(page.context.state, page.principal.queues)
    now_ms, wanted = await asyncio.gather(page.service.now(), reading_names)
    page.now_ms = now_ms
    if query.search:
        wanted = names_containing(wanted, query.search, len(wanted))
    start = bisect_right(wanted, query.after)
    shown = wanted[start : start + QUEUES_PER_PAGE]
    stats = await page.service.stats(shown) if shown else []
    following = shown[-1] if len(wanted) > start + len(shown) else ""
    return QueuesView(now_ms, stats, len(wanted), query.search, following)


class QueueQuery(msgspec.Struct, frozen=True, kw_only=True):
    span: TimeRangeName = "hour"
    lanes: str = ""  # cursor of the lanes


class QueueView(msgspec.Struct, frozen=True, kw_only=True):
    now_ms: int
    queue: str
    stats: QueueStats
    throughput: Throughput
    pauses: list[Pause]
    limits: list[LimitRow]
    lanes: Lanes
    properties: list[Property]
    weights: dict[str, int]
    unknown_names: list[UnknownName]

    @property
    def pause(self) -> Pause | None:
        """Pause of the whole queue."""
        return next((pause for pause in self.pauses if not pause.lane and not pause.name), None)

    @property
    def changed(self) -> list[Property]:
        """Properties to show: those that differ from their defaults, and fixed leases."""
        return [
            item for item in self.properties if item.is_changed or (item.field == "lease_renewal" and not item.value)
        ]

    @property
    def has_name_lanes(self) -> bool:
        return any(item.field == "name_lanes" and bool(item.value) for item in self.properties)

    @property
    def unknown_names_with_filters(self) -> list[tuple[UnknownName, dict[str, str]]]:
        """Names that no worker knows, each with the query of the list of its jobs."""
        return [
            (unknown, {"state": "queued", "queue": self.queue, "name": exact_name(unknown.name)})
            for unknown in self.unknown_names
        ]

    @property
    def partial_pauses(self) -> list[Pause]:
        """Pauses of lanes and names."""
        return [pause for pause in self.pauses if pause.lane or pause.name]


@routes.page("/queues/{queue}", "queue.html", section="queues", query=QueueQuery)
async def queue(page: PageContext[QueueQuery]) -> QueueView | Response:
    """Show a queue."""
    name, service = page.path_values["queue"], page.service
    page.context.check_queue(name)
    presence = await service.queue_presence(name, queues=page.principal.queues)
    if not presence.exists and not was_seen(page.context.state, name):
        return render_missing(page, presence.sentence, presence.suggestion)
    chosen = TIME_RANGES[page.query.span]
    reading_histories = service.histories([name], step_minutes=chosen.step_minutes, steps=chosen.steps)
    now_ms, stats, histories = await asyncio.gather(service.now(), service.stats([name]), reading_histories)
    reading_lanes = service.lanes(name, most=LANES_PER_PAGE, cursor=page.query.lanes)
    pauses, limits, lanes = await asyncio.gather(service.pauses(name), service.limits(), reading_lanes)
    configuration, weights, unknown_names = await asyncio.gather(
        service.configuration(name), service.set_weights(name, {}), service.unknown_names(name)
    )
    page.now_ms = now_ms
    return QueueView(
        now_ms=now_ms,
        queue=name,
        stats=stats[0],
        throughput=compute_throughput([histories[name]], now_ms, page.query.span),
        pauses=pauses,
        limits=[limit_row(state) for state in limits if state.limit.matches.may_match_queue(name)],
        lanes=lanes,
        properties=properties(name, configuration),
        weights=weights,
        unknown_names=unknown_names,
    )
