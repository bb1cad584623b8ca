"""Downloads by aggregation: how many wait and run, and how many of each may run at once."""

from __future__ import annotations

import msgspec

from ...core.errors import UnknownLimit
from ...core.limit import Aggregation
from ...loops.downloading.order import AGGREGATION_LIMIT, AGGREGATIONS, QUEUE
from ..routes import DashboardRoutes
from ..visit import Visit

routes = DashboardRoutes()

PER_PAGE = 100


class AggregationsQuery(msgspec.Struct, frozen=True, kw_only=True):
    cursor: str = ""


class AggregationsView(msgspec.Struct, frozen=True):
    rows: list[Aggregation]
    cursor: str
    following: str
    usual: int = AGGREGATION_LIMIT


@routes.page("/aggregations", "aggregations.html", page="aggregations", query=AggregationsQuery)
async def aggregations(visit: Visit[AggregationsQuery]) -> AggregationsView:
    """Downloads by aggregation."""
    visit.ask.may_use(QUEUE)
    try:
        page = await visit.service.aggregations(AGGREGATIONS, most=PER_PAGE, cursor=visit.query.cursor)
    except UnknownLimit:  # no download has ever come in
        return AggregationsView([], "", "")
    return AggregationsView(page.aggregations, visit.query.cursor, page.cursor)
