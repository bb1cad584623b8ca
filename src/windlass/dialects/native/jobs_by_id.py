"""Several jobs are looked at in one request: what waits for a group, or rescues what a worker held, knows many ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windlass.core.errors import Refusal
from windlass.core.ids import parse_id
from windlass.core.job import Timeline
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import KNOWS, Routes
from windlass.wire.jobs import TimelineShape, WantedItem, timeline_shape
from windlass.wire.shape import Items, Results, to_results

routes = Routes("/api/v1", tag="Looking")


@routes.post("/jobs:get", roles=KNOWS, body=Items[WantedItem], response=Results[TimelineShape])
async def job_many(context: RequestContext[Items[WantedItem], Any]) -> Results[TimelineShape]:
    """Jobs with the attempts that ended badly: up to 1,000, each answered by itself."""
    found: Sequence[Timeline | Refusal] = await context.service.job([parse_id(one.id) for one in context.body.items])
    for one in found:
        if isinstance(one, Timeline):
            context.check_found(one.job.queue, f"job {one.job.key}")
    return to_results(found, lambda one: timeline_shape(one, context.response_encoding))
