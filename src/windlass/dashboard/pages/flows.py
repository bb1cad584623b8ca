"""List of flows by state and name, newest first."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from windlass.core.flow import FLOW_STATES, FlowState, FlowSummary
from windlass.core.text.name_patterns import name_pattern
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.routes import DashboardRoutes
from windlass.dashboard.views.saved_filters import FilterBar, filter_bar

routes = DashboardRoutes()

PER_PAGE = 50


class FlowsQuery(msgspec.Struct, frozen=True, kw_only=True):
    state: FlowState | Literal[""] = ""
    name: str = ""
    cursor: str = ""


class FlowsView(msgspec.Struct, frozen=True):
    query: FlowsQuery
    flows: list[FlowSummary]
    cursor: str  # of the next page; empty: this is the last one
    filters: FilterBar

    @property
    def states(self) -> tuple[FlowState, ...]:
        return FLOW_STATES

    def page_query(self, **changes: str) -> dict[str, Any]:
        """Return the query of another page with the same filters."""
        return {"state": self.query.state, "name": self.query.name, **changes}


@routes.page("/flows", "flows.html", section="flows", query=FlowsQuery)
async def flows(page: PageContext[FlowsQuery]) -> FlowsView:
    """List flows."""
    query = page.query
    page.now_ms = await page.service.now()
    found = await page.service.flows(
        state=query.state,
        name=name_pattern(query.name),
        most=PER_PAGE,
        cursor=query.cursor,
        queues=page.principal.queues,
    )
    return FlowsView(query, found.flows, found.cursor, await filter_bar(page, "flows"))
