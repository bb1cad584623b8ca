"""Failed jobs as groups of those with which the same thing went wrong."""

from __future__ import annotations

from windlass.core import errors
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import READS, Routes
from windlass.wire.failure_groups import FailuresQuery, FailuresShape, failure_group_shape

routes = Routes("/api/v1", tag="Looking")


@routes.get("/failures", roles=READS, query=FailuresQuery, response=FailuresShape, refuses=(errors.TooLarge,))
async def failures(context: RequestContext[None, FailuresQuery]) -> FailuresShape:
    """The last failed jobs, grouped by what went wrong.

    A token for some queues sees and counts the failures in these."""
    query = context.query
    question = context.service.failures(
        queue=query.queue, name=query.name, looked_at=query.looked_at, queues=context.principal.queues
    )
    if query.queue:
        context.check_queue(query.queue)
    found = await question
    return FailuresShape(
        groups=[failure_group_shape(one) for one in found.groups],
        looked_at=found.looked_at,
        is_all=found.is_all,
        at_ms=found.at_ms,
    )
