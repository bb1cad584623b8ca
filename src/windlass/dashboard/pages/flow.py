"""One flow: its graph, what blocks it, and when each step waited and ran."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from markupsafe import Markup

from windlass.core.errors import UnknownFlow
from windlass.core.flow import Flow
from windlass.core.ids import parse_id
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.rendering import HEADERS
from windlass.dashboard.routes import DashboardRoutes
from windlass.dashboard.views.flow.blockers import Blockers, find_blockers
from windlass.dashboard.views.flow.fold import fold, show_all
from windlass.dashboard.views.flow.svg import render_graph
from windlass.dashboard.views.gantt import Gantt, chart_of
from windlass.dashboard.views.named import redirect_part
from windlass.web.listener.messages import Response

routes = DashboardRoutes()

LIVE_MAX = 300  # steps; a larger graph without folds does not refresh by itself


class FlowQuery(msgspec.Struct, frozen=True, kw_only=True):
    steps: Literal["", "all"] = ""  # all: without folds


class FlowView(msgspec.Struct, frozen=True):
    flow: Flow
    graph: Markup
    is_folded: bool
    shows_all: bool
    gantt: Gantt
    blockers: Blockers

    @property
    def is_live(self) -> bool:
        return not self.shows_all or len(self.flow.steps) <= LIVE_MAX

    @property
    def duration_ms(self) -> int:
        summary = self.flow.summary
        return max(0, (summary.ended_at_ms or self.flow.now_ms) - summary.created_at_ms)


@routes.page("/flows/{id}", "flow.html", section="flows", query=FlowQuery)
async def flow(page: PageContext[FlowQuery]) -> FlowView | Response:
    """Show a flow with its steps."""
    if redirect := redirect_part(page):
        return redirect
    try:
        found = await read_flow(page, parse_id(page.path_values["id"]))
    except UnknownFlow:
        if not page.is_live:
            raise
        return Response(204, b"", HEADERS)  # an open page keeps its content
    page.now_ms = found.now_ms
    shows_all = page.query.steps == "all"
    graph = show_all(found.steps) if shows_all else fold(found.steps)
    unfolded = page.link("flows", found.summary.key, steps="all")
    drawn = render_graph(graph, found.steps, found.now_ms, lambda key: page.link("jobs", key), unfolded)
    return FlowView(found, drawn, graph.is_folded, shows_all, chart_of(found), await find_blockers(page, found))


async def read_flow(page: PageContext[Any], flow_id: bytes) -> Flow:
    """Read a flow. Raise if it does not exist, or if the principal may not use one of its queues."""
    found: Flow = await page.service.flow(flow_id)
    for queue in found.summary.queues:
        page.context.check_found(queue, "this flow")
    return found
