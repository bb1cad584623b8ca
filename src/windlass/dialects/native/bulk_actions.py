"""Actions on all jobs that match a list's conditions: asked for, looked at, called off."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.core import errors
from windlass.core.bulk_action import Action, ActionStatus
from windlass.core.ids import format_id
from windlass.core.operations import Listing
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import ADMIN, READS, Routes
from windlass.wire.job_admin import ActionShape, ActionsShape, ActionStatusShape, CancelledShape, action_status_shape

from .jobs import ABSENT, looked_at

routes = Routes("/api/v1", tag="Acting")


def _may_use(context: RequestContext[Any, Any], listing: Listing) -> None:
    context.check_queue(listing.queue) if listing.queue else context.check_all_queues()


def _check_found(context: RequestContext[Any, Any], listing: Listing) -> None:
    context.check_found(listing.queue, "this action") if listing.queue else context.check_all_queues()


@routes.post(
    "/actions", roles=ADMIN, body=ActionShape, response=ActionStatusShape, is_audited=True,
    refuses=(errors.TooLarge, errors.EngineFull, errors.QueueFull, errors.LimitsChanged),
)  # fmt: skip
async def act(context: RequestContext[ActionShape, None]) -> ActionStatusShape:
    """Retry, cancel, delete or requeue all jobs that match, in the background.

    A server carries it out in bounded steps; when it dies, another goes on. Jobs that come into the list later are left
    alone."""
    body = context.body
    listing = Listing(**msgspec.structs.asdict(body.matches))
    context.audit_target = listing.queue or "all queues"
    context.audit_detail = msgspec.json.encode(body).decode()
    question = context.service.act(
        Action(verb=body.verb, listing=listing, reason=body.reason, asked_by=context.principal.name[:255])
    )
    _may_use(context, listing)
    return action_status_shape(await question)


@routes.get("/actions", roles=READS, response=ActionsShape)
async def actions(context: RequestContext[None, None]) -> ActionsShape:
    """Actions under way, and the last ones that have ended.

    A token for some queues sees those on these queues."""
    found = await context.service.actions()
    return ActionsShape(
        actions=[action_status_shape(one) for one in found if not context.principal.queues or _is_seen(context, one)]
    )


def _is_seen(context: RequestContext[Any, Any], status: ActionStatus) -> bool:
    return bool(status.listing.queue) and context.principal.may_use(status.listing.queue)


@routes.get("/actions/{id}", roles=READS, response=ActionStatusShape, refuses=ABSENT)
async def action(context: RequestContext[None, None]) -> ActionStatusShape:
    """One action, and how far it has come."""
    found = await looked_at(context.service.action(context.job_id))
    _check_found(context, found.listing)
    return action_status_shape(found)


@routes.post(
    "/actions/{id}/cancel", roles=ADMIN, response=CancelledShape, is_audited=True,
    refuses=(errors.UnknownJob, errors.AlreadyEnded, errors.WrongState),
)  # fmt: skip
async def cancel_action(context: RequestContext[None, None]) -> CancelledShape:
    """Call an action off; what it has done stays done.

    `requested`: it ends after the step that it is in."""
    action_id = context.job_id
    context.audit_target = format_id(action_id)
    _check_found(context, (await context.service.action(action_id)).listing)
    return CancelledShape(outcome=await context.service.cancel([action_id]).one())  # type: ignore[arg-type]
