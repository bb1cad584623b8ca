"""Failed jobs grouped by queue, name and error shape."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.core.ids import format_id
from windlass.core.stats.failure_groups import FailureGroup
from windlass.dashboard.forms.filters import exact_name
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.routes import DashboardRoutes
from windlass.dashboard.views.saved_filters import FilterBar, filter_bar

routes = DashboardRoutes()

SCAN_MAX = 5_000  # newest failed jobs


class FailuresQuery(msgspec.Struct, frozen=True, kw_only=True):
    queue: str = ""


class GroupRow(msgspec.Struct, frozen=True):
    group: FailureGroup
    sample: str
    share: float  # of the largest group
    filter: dict[str, Any]  # query of the list of its jobs


class FailuresView(msgspec.Struct, frozen=True):
    queue: str
    rows: list[GroupRow]
    total: int
    consequences: int  # jobs that failed because of those of the groups
    other_consequences: int
    looked_at: int
    is_all: bool
    is_cached: bool  # some seconds old: the page must refresh
    filters: FilterBar


@routes.page("/failures", "failures.html", section="failures", query=FailuresQuery)
async def failures(page: PageContext[FailuresQuery]) -> FailuresView:
    """Show failed jobs grouped by error."""
    queue = page.query.queue.strip()
    if queue:
        page.context.check_queue(queue)
    page.now_ms = await page.service.now()
    found = await page.service.failures(queue=queue, looked_at=SCAN_MAX, queues=page.principal.queues)
    groups = found.groups
    largest = max((group.count for group in groups), default=1)
    rows = [GroupRow(group, format_id(group.sample), group.count / largest, _filter(group)) for group in groups]
    total = sum(group.count for group in groups)
    consequences = sum(group.consequences for group in groups)
    is_cached = found.at_ms < page.now_ms
    filters = await filter_bar(page, "failures")
    return FailuresView(
        queue, rows, total, consequences, found.other_consequences, found.looked_at, found.is_all, is_cached, filters
    )


def _filter(group: FailureGroup) -> dict[str, Any]:
    return {"state": "failed", "queue": group.queue, "name": exact_name(group.name), "shape": group.error_shape}
