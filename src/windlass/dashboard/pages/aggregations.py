"""Downloads by aggregation, with their counts and limits; and the processes that download and deliver callbacks."""

from __future__ import annotations

import msgspec

from windlass.core.errors import UnknownLimit
from windlass.core.limits.limit import Aggregation, encode_key
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.routes import DashboardRoutes
from windlass.downloads.worker.order import AGGREGATION_LIMIT, AGGREGATIONS, QUEUE
from windlass.outbound.urls import split_credentials

routes = DashboardRoutes()

PER_PAGE = 100
_RESPONSES = "download.response."
_COUNTER_LABELS = {
    "processor": {
        "workers": "running",
        "spawnedWorkers": "started",
        "failures": "internal errors",
        "invalidProxies": "unusable proxies",
        "reaperSuccessfulDeletions": "files deleted",
        "reaperFailures": "files not deleted",
    },
    "notifier": {
        "successfulCallbacks": "delivered",
        "failedCallbacks": "not delivered",
        "undefinedBackendWithCallback": "of unknown type",
        "unknownTopicOrPartition": "unknown topics",
    },
}


class AggregationsQuery(msgspec.Struct, frozen=True, kw_only=True):
    cursor: str = ""


class Instance(msgspec.Struct, frozen=True):
    """A process that downloads or delivers callbacks, with its counters since its start."""

    name: str
    role: str
    numbers: dict[str, int]

    @property
    def counted(self) -> dict[str, int]:
        """Counters by their labels on the page, without those that are 0."""
        labelled = {label: self.numbers.get(name, 0) for name, label in _COUNTER_LABELS[self.role].items()}
        responses = {
            f"answered {name.removeprefix(_RESPONSES)}": number
            for name, number in sorted(self.numbers.items())
            if name.startswith(_RESPONSES)
        }
        return {label: number for label, number in (labelled | responses).items() if number}


class AggregationsView(msgspec.Struct, frozen=True):
    rows: list[Aggregation]
    cursor: str
    following: str
    instances: list[Instance]
    default_limit: int = AGGREGATION_LIMIT
    limit: str = AGGREGATIONS

    def key_of(self, row: Aggregation) -> str:
        """Return the key of the page of an aggregation."""
        return encode_key(row.key)

    def proxy_of(self, row: Aggregation) -> str:
        """Return the proxy without its user and password."""
        return split_credentials(row.note)[0]


@routes.page("/aggregations", "aggregations.html", section="aggregations", query=AggregationsQuery)
async def aggregations(page: PageContext[AggregationsQuery]) -> AggregationsView:
    """List downloads by aggregation."""
    page.context.check_queue(QUEUE)
    instances = [instance for role in _COUNTER_LABELS for instance in await _instances(page, role)]
    try:
        result = await page.service.aggregations(AGGREGATIONS, most=PER_PAGE, cursor=page.query.cursor)
    except UnknownLimit:  # the first download creates the limit
        return AggregationsView([], "", "", instances)
    return AggregationsView(result.aggregations, page.query.cursor, result.cursor, instances)


async def _instances(page: PageContext[AggregationsQuery], role: str) -> list[Instance]:
    """Return the processes that reported within the last seconds."""
    found = await page.service.stats_of(role)
    return [Instance(name, role, numbers) for name, numbers in sorted(found.items())]
