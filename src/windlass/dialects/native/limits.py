"""Limits: how many matching jobs may run at once or start per time, and how full each is."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.core import errors
from windlass.core.ids import format_id
from windlass.core.limits.limit import LimitState
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import ADMIN, READS, Routes
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


@routes.get("/limits", roles=READS, response=LimitsShape)
async def limits(context: RequestContext[None, None]) -> LimitsShape:
    """All limits, by name, and how full they are.

    A token for some queues is shown the limits that are about one of them."""
    return LimitsShape(
        limits=[limit_state_shape(one) for one in await context.service.limits() if _may_see(context, one)]
    )


@routes.get(
    "/limits/{name}/holders", roles=READS, query=HoldersQuery, response=LimitHoldersShape,
    refuses=(errors.TooLarge, errors.UnknownLimit),
)  # fmt: skip
async def limit_holders(context: RequestContext[None, HoldersQuery]) -> LimitHoldersShape:
    """Which jobs run under a limit; of one per key, under one of its keys."""
    context.check_all_queues()
    query = context.query
    found = await context.service.holders(context.path["name"], key=query.key, start=query.start, most=query.most)
    holders = [LimitHolderShape(id=format_id(one.id), since_ms=one.since_ms) for one in found.holders]
    return LimitHoldersShape(count=found.count, holders=holders)


def _may_see(context: RequestContext[Any, Any], found: LimitState) -> bool:
    queue = found.limit.matches.queue
    return not context.principal.queues or (bool(queue) and context.principal.may_use(queue))


@routes.put(
    "/limits/{name}", roles=ADMIN, body=LimitShape, response=MatchedShape, is_audited=True,
    refuses=(errors.TooLarge, errors.CrossPartition, errors.EngineFull),
)  # fmt: skip
async def set_limit(context: RequestContext[LimitShape, None]) -> MatchedShape:
    """Set a limit, or change the one of this name.

    Jobs that run already count; those that wait are matched anew."""
    context.audit_target = context.path["name"]
    context.audit_detail = msgspec.json.encode(context.body).decode()
    context.check_all_queues()
    return MatchedShape(changed=await context.service.limit(context.body.limit(context.audit_target)))


@routes.delete(
    "/limits/{name}", roles=ADMIN, response=MatchedShape, is_audited=True,
    refuses=(errors.TooLarge, errors.UnknownLimit, errors.EngineFull),
)  # fmt: skip
async def remove_limit(context: RequestContext[None, None]) -> MatchedShape:
    """Take a limit away; what it held back may run at once."""
    context.audit_target = context.path["name"]
    context.check_all_queues()
    return MatchedShape(changed=await context.service.unlimit(context.audit_target))
