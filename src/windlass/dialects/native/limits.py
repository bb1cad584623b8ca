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
    AggregationShape,
    HoldersQuery,
    LimitHolderShape,
    LimitHoldersShape,
    LimitShape,
    LimitsShape,
    MatchedShape,
    SetCapShape,
    limit_state_shape,
)
from windlass.wire.shape import to_shape

routes = Routes("/api/v1", tag="Limits")


@routes.get("/limits", roles=READERS, response=LimitsShape)
async def limits(context: RequestContext[None, None]) -> LimitsShape:
    """List all limits by name, with their usage.

    A token limited to some queues sees the limits that apply to these queues only."""
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
    queues = state.limit.matches.named_queues()
    return not context.principal.queues or (bool(queues) and all(map(context.principal.may_use, queues)))


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


@routes.put(
    "/limits/{name}/cap", roles=ADMINS, body=SetCapShape, response=AggregationShape, is_audited=True,
    refuses=(errors.TooLarge, errors.UnknownLimit, errors.UnknownLimitKey, errors.EngineFull),
)  # fmt: skip
async def set_cap(context: RequestContext[SetCapShape, None]) -> AggregationShape:
    """Change the cap of one key of a limit with `own_caps`.

    A higher cap lets waiting jobs start at once. Under a lower one, running jobs continue to their end."""
    context.audit_target = context.path["name"]
    change = context.body
    # The note is left out: that of a download's key is a proxy, which may contain a password.
    context.audit_detail = msgspec.json.encode({"running": change.running, "key": change.key}).decode()
    context.check_all_queues()
    found = await context.service.set_cap(context.audit_target, change.key, running=change.running, note=change.note)
    return to_shape(found, AggregationShape)


@routes.delete(
    "/limits/{name}", roles=ADMINS, response=MatchedShape, is_audited=True,
    refuses=(errors.TooLarge, errors.UnknownLimit, errors.EngineFull),
)  # fmt: skip
async def remove_limit(context: RequestContext[None, None]) -> MatchedShape:
    """Remove a limit. Jobs that it blocked may run at once."""
    context.audit_target = context.path["name"]
    context.check_all_queues()
    return MatchedShape(changed=await context.service.unlimit(context.audit_target))
