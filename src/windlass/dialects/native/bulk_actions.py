"""Routes of bulk actions: actions on all jobs that match a filter."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.core import errors
from windlass.core.bulk_action import Action, ActionStatus
from windlass.core.ids import format_id
from windlass.core.operations import Listing
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import ADMINS, READERS, Routes
from windlass.wire.job_admin import ActionShape, ActionsShape, ActionStatusShape, CancelledShape, action_status_shape

from .jobs import ABSENT, read_job

routes = Routes("/api/v1", tag="Acting")


def _check_listing(context: RequestContext[Any, Any], listing: Listing) -> None:
    context.check_queue(listing.queue) if listing.queue else context.check_all_queues()


def _check_found(context: RequestContext[Any, Any], listing: Listing) -> None:
    context.check_found(listing.queue, "this action") if listing.queue else context.check_all_queues()


@routes.post(
    "/actions", roles=ADMINS, body=ActionShape, response=ActionStatusShape, is_audited=True,
    refuses=(errors.TooLarge, errors.EngineFull, errors.QueueFull, errors.LimitsChanged),
)  # fmt: skip
async def act(context: RequestContext[ActionShape, None]) -> ActionStatusShape:
    """Retry, cancel, delete or requeue all jobs that match, in the background.

    A server runs the action in bounded steps. If that server dies, another server continues. Jobs that match only later
    are not affected."""
    body = context.body
    listing = Listing(**msgspec.structs.asdict(body.matches))
    context.audit_target = listing.queue or "all queues"
    context.audit_detail = msgspec.json.encode(body).decode()
    operation = context.service.act(
        Action(verb=body.verb, listing=listing, reason=body.reason, asked_by=context.principal.name[:255])
    )
    _check_listing(context, listing)
    return action_status_shape(await operation)


@routes.get("/actions", roles=READERS, response=ActionsShape)
async def actions(context: RequestContext[None, None]) -> ActionsShape:
    """List the running actions, and the last ones that have ended.

    A token limited to some queues sees the actions on these queues."""
    found = await context.service.actions()
    return ActionsShape(
        actions=[
            action_status_shape(status)
            for status in found
            if not context.principal.queues or _is_visible(context, status)
        ]
    )


def _is_visible(context: RequestContext[Any, Any], status: ActionStatus) -> bool:
    return bool(status.listing.queue) and context.principal.may_use(status.listing.queue)


@routes.get("/actions/{id}", roles=READERS, response=ActionStatusShape, refuses=ABSENT)
async def action(context: RequestContext[None, None]) -> ActionStatusShape:
    """Read one action and its progress."""
    found = await read_job(context.service.action(context.job_id))
    _check_found(context, found.listing)
    return action_status_shape(found)


@routes.post(
    "/actions/{id}/cancel", roles=ADMINS, response=CancelledShape, is_audited=True,
    refuses=(errors.UnknownJob, errors.AlreadyEnded, errors.WrongState),
)  # fmt: skip
async def cancel_action(context: RequestContext[None, None]) -> CancelledShape:
    """Cancel an action. Changes that it has already made stay.

    `requested`: the action ends after its current step."""
    action_id = context.job_id
    context.audit_target = format_id(action_id)
    _check_found(context, (await context.service.action(action_id)).listing)
    return CancelledShape(outcome=await context.service.cancel([action_id]).one())  # type: ignore[arg-type]
