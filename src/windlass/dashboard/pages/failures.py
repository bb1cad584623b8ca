"""What went wrong, each thing once: failed jobs by queue, name and the shape of their errors."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.core.ids import format_id
from windlass.core.stats.failure_groups import FailureGroup
from windlass.dashboard.forms.filters import exact_name
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.routes import DashboardRoutes

routes = DashboardRoutes()

SCAN_MAX = 5_000  # the last failed jobs


class FailuresQuery(msgspec.Struct, frozen=True, kw_only=True):
    queue: str = ""


class GroupRow(msgspec.Struct, frozen=True):
    group: FailureGroup
    sample: str
    share: float  # of the largest
    filter: dict[str, Any]  # the list of its jobs


class FailuresView(msgspec.Struct, frozen=True):
    queue: str
    rows: list[GroupRow]
    total: int
    looked_at: int
    is_all: bool
    is_remembered: bool  # from some seconds ago: to be looked at again


@routes.page("/failures", "failures.html", section="failures", query=FailuresQuery)
async def failures(page: PageContext[FailuresQuery]) -> FailuresView:
    """Failed jobs, grouped by what went wrong."""
    queue = page.query.queue.strip()
    if queue:
        page.context.check_queue(queue)
    page.now_ms = await page.service.now()
    found = await page.service.failures(queue=queue, looked_at=SCAN_MAX, queues=page.principal.queues)
    groups = found.groups
    most = max((one.count for one in groups), default=1)
    rows = [GroupRow(one, format_id(one.sample), one.count / most, _filter(one)) for one in groups]
    total = sum(one.count for one in groups)
    return FailuresView(queue, rows, total, found.looked_at, found.is_all, found.at_ms < page.now_ms)


def _filter(group: FailureGroup) -> dict[str, Any]:
    return {"state": "failed", "queue": group.queue, "name": exact_name(group.name), "shape": group.error_shape}
