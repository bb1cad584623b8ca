"""Actions on all jobs that match a list's conditions: asked for, looked at, called off."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from windlass.core import errors
from windlass.core.bulk_action import Action, ActionStatus, Verb
from windlass.core.ids import format_id
from windlass.core.operations import Listing
from windlass.core.text.error_text import SHAPE_MAX
from windlass.core.validation.bounds import NAME_MAX, QUEUE_MAX, REASON_MAX, SOUGHT_MAX, TAG_MAX
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import ADMIN, READS, Routes

from .job_admin import CancelledShape
from .jobs import ABSENT, StateName, looked_at
from .shapes import Given, Id, Instant, Shape

routes = Routes("/api/v1", tag="Acting")

Sought = Annotated[str, Meta(max_length=SOUGHT_MAX, description="Text that the last error holds, in any case.")]


class SoughtJobsShape(Shape, frozen=True, kw_only=True):
    """Which jobs: as GET /jobs would list them now."""

    queue: Annotated[str, Meta(max_length=QUEUE_MAX, description="Empty: all queues.")] = ""
    state: Annotated[str, Meta(description="Needed unless there is a tag.", examples=["queued"])] = ""
    tag: Annotated[str, Meta(max_length=TAG_MAX)] = ""
    name: Annotated[str, Meta(max_length=NAME_MAX, description="A pattern: * and ?.")] = ""
    created_from_ms: Instant = 0
    created_before_ms: Instant = 0
    ended_from_ms: Instant = 0
    ended_before_ms: Instant = 0
    error: Sought = ""
    error_shape: Annotated[str, Meta(max_length=SHAPE_MAX)] = ""


class ActionShape(Shape, frozen=True, kw_only=True):
    """`retry` is for failed and cancelled jobs, `cancel` for those that have not ended, `delete` for those that nobody
    works on, `requeue` for those that are not queued."""

    verb: Verb
    matches: SoughtJobsShape
    reason: Annotated[str, Meta(min_length=1, max_length=REASON_MAX, description="Of a cancel.")] = "cancelled"


class ActionStatusShape(Given, frozen=True, kw_only=True):
    """An action as it stands. `gone`: jobs that went their way meanwhile."""

    id: Id
    verb: Verb
    matches: SoughtJobsShape
    reason: str
    asked_by: str
    asked_at_ms: int
    state: StateName
    is_cancel_requested: bool
    started_at_ms: int | None
    ended_at_ms: int | None
    total: Annotated[int, Meta(description="Jobs in the list when it was asked for, about; 0: not known.")]
    looked_at: int
    done: int
    gone: int
    refused: int
    refusals: Annotated[dict[str, int], Meta(description="How many, by code.")]


class ActionsShape(Given, frozen=True, kw_only=True):
    """The newest first."""

    actions: list[ActionStatusShape]


def _shape(status: ActionStatus) -> ActionStatusShape:
    given = msgspec.structs.asdict(status) | {"id": format_id(status.id), "matches": _matches(status.listing)}
    return ActionStatusShape(**{name: given[name] for name in ActionStatusShape.__struct_fields__})


def _matches(listing: Listing) -> SoughtJobsShape:
    return SoughtJobsShape(**{name: getattr(listing, name) for name in SoughtJobsShape.__struct_fields__})


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
    return _shape(await question)


@routes.get("/actions", roles=READS, response=ActionsShape)
async def actions(context: RequestContext[None, None]) -> ActionsShape:
    """Actions under way, and the last ones that have ended.

    A token for some queues sees those on these queues."""
    found = await context.service.actions()
    return ActionsShape(
        actions=[_shape(one) for one in found if not context.principal.queues or _is_seen(context, one)]
    )


def _is_seen(context: RequestContext[Any, Any], status: ActionStatus) -> bool:
    return bool(status.listing.queue) and context.principal.may_use(status.listing.queue)


@routes.get("/actions/{id}", roles=READS, response=ActionStatusShape, refuses=ABSENT)
async def action(context: RequestContext[None, None]) -> ActionStatusShape:
    """One action, and how far it has come."""
    found = await looked_at(context.service.action(context.job_id))
    _check_found(context, found.listing)
    return _shape(found)


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
