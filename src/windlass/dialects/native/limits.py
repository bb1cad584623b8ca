"""Routes of limits on running jobs and on start rates."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.core import errors
from windlass.core.ids import format_id
from windlass.core.limits.limit import LimitState
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import ADMINS, READERS, Routes
from windlass.wire.limits import (
    HoldersQuery,
    LimitHolderShape,
    LimitHoldersShape,
    LimitShape,
    LimitsShape,
    MatchedShape,
    limit_state_shape,
)

routes = Routes("/api/v1", tag="Limits")


@routes.get("/limits", roles=READERS, response=LimitsShape)
async def limits(context: RequestContext[None, None]) -> LimitsShape:
    """List all limits by name, with their usage.

    A token limited to some queues sees the limits that match one of these queues."""
    return LimitsShape(
        limits=[limit_state_shape(state) for state in await context.service.limits() if _is_visible(context, state)]
    )


@routes.get(
    "/limits/{name}/holders", roles=READERS, query=HoldersQuery, response=LimitHoldersShape,
    refuses=(errors.TooLarge, errors.UnknownLimit),
)  # fmt: skip
async def limit_holders(context: RequestContext[None, HoldersQuery]) -> LimitHoldersShape:
    """List the jobs that run under a limit, or under one key of it."""
    context.check_all_queues()
    query = context.query
    found = await context.service.holders(context.path["name"], key=query.key, start=query.start, most=query.most)
    holders = [LimitHolderShape(id=format_id(holder.id), since_ms=holder.since_ms) for holder in found.holders]
    return LimitHoldersShape(count=found.count, holders=holders)


def _is_visible(context: RequestContext[Any, Any], state: LimitState) -> bool:
    queue = state.limit.matches.queue
    return not context.principal.queues or (bool(queue) and context.principal.may_use(queue))


@routes.put(
    "/limits/{name}", roles=ADMINS, body=LimitShape, response=MatchedShape, is_audited=True,
    refuses=(errors.TooLarge, errors.CrossPartition, errors.EngineFull),
)  # fmt: skip
async def set_limit(context: RequestContext[LimitShape, None]) -> MatchedShape:
    """Create or change a limit.

    Running jobs count at once. Waiting jobs are matched again."""
    context.audit_target = context.path["name"]
    context.audit_detail = msgspec.json.encode(context.body).decode()
    context.check_all_queues()
    return MatchedShape(changed=await context.service.limit(context.body.limit(context.audit_target)))


@routes.delete(
    "/limits/{name}", roles=ADMINS, response=MatchedShape, is_audited=True,
    refuses=(errors.TooLarge, errors.UnknownLimit, errors.EngineFull),
)  # fmt: skip
async def remove_limit(context: RequestContext[None, None]) -> MatchedShape:
    """Remove a limit. Jobs that it blocked may run at once."""
    context.audit_target = context.path["name"]
    context.check_all_queues()
    return MatchedShape(changed=await context.service.unlimit(context.audit_target))
