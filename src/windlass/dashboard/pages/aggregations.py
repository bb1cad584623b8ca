"""Downloads by aggregation: how many wait and run, how many of each may run at once; and who downloads and tells."""

from __future__ import annotations

import msgspec

from windlass.core.errors import UnknownLimit
from windlass.core.limits.limit import Aggregation
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.routes import DashboardRoutes
from windlass.downloads.worker.order import AGGREGATION_LIMIT, AGGREGATIONS, QUEUE

routes = DashboardRoutes()

PER_PAGE = 100
_ANSWERS = "download.response."
_COUNTER_LABELS = {
    "processor": {
        "workers": "under way",
        "spawnedWorkers": "begun",
        "failures": "internal errors",
        "invalidProxies": "unusable proxies",
        "reaperSuccessfulDeletions": "files deleted",
        "reaperFailures": "files not deleted",
    },
    "notifier": {
        "successfulCallbacks": "delivered",
        "failedCallbacks": "not delivered",
        "undefinedBackendWithCallback": "of an unknown type",
        "unknownTopicOrPartition": "unknown topics",
    },
}


class AggregationsQuery(msgspec.Struct, frozen=True, kw_only=True):
    cursor: str = ""


class Instance(msgspec.Struct, frozen=True):
    """A process that downloads, or that delivers callbacks, and what it has counted since its start."""

    name: str
    role: str
    numbers: dict[str, int]

    @property
    def counted(self) -> dict[str, int]:
        """In the words of the page; what is 0 is left out."""
        told = {text: self.numbers.get(name, 0) for name, text in _COUNTER_LABELS[self.role].items()}
        answers = {
            f"answered {name.removeprefix(_ANSWERS)}": number
            for name, number in sorted(self.numbers.items())
            if name.startswith(_ANSWERS)
        }
        return {text: number for text, number in (told | answers).items() if number}


class AggregationsView(msgspec.Struct, frozen=True):
    rows: list[Aggregation]
    cursor: str
    following: str
    instances: list[Instance]
    usual: int = AGGREGATION_LIMIT


@routes.page("/aggregations", "aggregations.html", section="aggregations", query=AggregationsQuery)
async def aggregations(page: PageContext[AggregationsQuery]) -> AggregationsView:
    """Downloads by aggregation."""
    page.context.check_queue(QUEUE)
    instances = [one for role in _COUNTER_LABELS for one in await _instances(page, role)]
    try:
        result = await page.service.aggregations(AGGREGATIONS, most=PER_PAGE, cursor=page.query.cursor)
    except UnknownLimit:  # no download has ever come in
        return AggregationsView([], "", "", instances)
    return AggregationsView(result.aggregations, page.query.cursor, result.cursor, instances)


async def _instances(page: PageContext[AggregationsQuery], role: str) -> list[Instance]:
    """Those that were heard of within the last seconds."""
    found = await page.service.stats_of(role)
    return [Instance(name, role, numbers) for name, numbers in sorted(found.items())]
