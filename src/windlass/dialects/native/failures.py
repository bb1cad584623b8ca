"""Route of failure groups: failed jobs grouped by error."""

from __future__ import annotations

from windlass.core import errors
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import READERS, Routes
from windlass.wire.failure_groups import FailuresShape, ListFailuresQuery, failure_group_shape

routes = Routes("/api/v1", tag="Looking")


@routes.get("/failures", roles=READERS, query=ListFailuresQuery, response=FailuresShape, refuses=(errors.TooLarge,))
async def failures(context: RequestContext[None, ListFailuresQuery]) -> FailuresShape:
    """List the last failed jobs, grouped by error.

    A token limited to some queues sees and counts the failures in these queues."""
    query = context.query
    operation = context.service.failures(
        queue=query.queue, name=query.name, looked_at=query.looked_at, queues=context.principal.queues
    )
    if query.queue:
        context.check_queue(query.queue)
    found = await operation
    return FailuresShape(
        groups=[failure_group_shape(group) for group in found.groups],
        other_consequences=found.other_consequences,
        looked_at=found.looked_at,
        is_all=found.is_all,
        at_ms=found.at_ms,
    )
