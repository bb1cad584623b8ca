"""Routes of schedules."""

from __future__ import annotations

from typing import Any, TypeAlias

from windlass.core import errors
from windlass.core.ids import format_id
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import ADMINS, READERS, Answer, Routes
from windlass.wire.enqueue import EnqueuedShape, enqueued_shape
from windlass.wire.schedules import (
    PauseScheduleShape,
    RevisionQuery,
    ScheduleShape,
    SchedulesShape,
    ScheduleStatusShape,
    schedule_status_shape,
)

routes = Routes("/api/v1", tag="Schedules")

_KNOWN = (errors.TooLarge, errors.UnknownSchedule)
_CHANGING = {"roles": ADMINS, "is_audited": True}

ScheduleContext: TypeAlias = RequestContext[None, None]


@routes.get("/schedules", roles=READERS, response=SchedulesShape)
async def schedules(context: ScheduleContext) -> SchedulesShape:
    """List all schedules by name.

    A token limited to some queues sees the schedules that enqueue jobs there."""
    statuses = await context.service.schedules()
    visible = [status for status in statuses if context.principal.may_use(status.schedule.job.queue)]
    return SchedulesShape(schedules=[schedule_status_shape(status, context.response_encoding) for status in visible])


@routes.get("/schedules/{name}", roles=READERS, response=ScheduleStatusShape, refuses=_KNOWN)
async def schedule(context: ScheduleContext) -> ScheduleStatusShape:
    """Read a schedule: its timing, its job, its next and last occurrence."""
    found = await context.service.schedule_of(context.path["name"])
    context.check_found(found.schedule.job.queue, "this schedule")
    return schedule_status_shape(found, context.response_encoding)


@routes.put(
    "/schedules/{name}", body=ScheduleShape, query=RevisionQuery, response=ScheduleStatusShape,
    refuses=(errors.TooLarge, errors.RevisionConflict, errors.CrossPartition, errors.EngineFull), **_CHANGING,
)  # fmt: skip
async def set_schedule(context: RequestContext[ScheduleShape, RevisionQuery]) -> ScheduleStatusShape:
    """Create or change a schedule.

    If the timing changes, the next occurrence is computed again. A schedule that is the same already is not changed."""
    name = _checked_name(context)
    context.audit_detail = f"jobs {context.body.job.name} in {context.body.job.queue}"
    wanted = context.body.schedule(name, context.body_encoding)
    return schedule_status_shape(
        await context.service.schedule(wanted, if_revision=context.query.if_revision), context.response_encoding
    )


@routes.delete(
    "/schedules/{name}", query=RevisionQuery, refuses=(*_KNOWN, errors.RevisionConflict, errors.EngineFull), **_CHANGING
)
async def remove_schedule(context: RequestContext[None, RevisionQuery]) -> None:
    """Remove a schedule. Jobs that it enqueued stay."""
    await context.service.unschedule(_checked_name(context), if_revision=context.query.if_revision)


@routes.post(
    "/schedules/{name}/pause", body=PauseScheduleShape, response=ScheduleStatusShape,
    refuses=(*_KNOWN, errors.EngineFull), **_CHANGING,
)  # fmt: skip
async def pause_schedule(context: RequestContext[PauseScheduleShape, None]) -> ScheduleStatusShape:
    """Pause a schedule until it is resumed."""
    name = _checked_name(context)
    context.audit_detail = context.body.reason
    return schedule_status_shape(
        await context.service.pause_schedule(name, reason=context.body.reason), context.response_encoding
    )


@routes.post(
    "/schedules/{name}/resume", response=ScheduleStatusShape, refuses=(*_KNOWN, errors.EngineFull), **_CHANGING
)
async def resume_schedule(context: ScheduleContext) -> ScheduleStatusShape:
    """Resume a paused schedule with its next occurrence.

    Occurrences during the pause are skipped."""
    return schedule_status_shape(
        await context.service.resume_schedule(_checked_name(context)), context.response_encoding
    )


@routes.post(
    "/schedules/{name}/run", response=EnqueuedShape, status=201, other_responses={200: EnqueuedShape},
    refuses=(*_KNOWN, errors.QueueFull, errors.EngineFull, errors.UnknownMember, errors.CrossPartition), **_CHANGING,
)  # fmt: skip
async def run_schedule(context: ScheduleContext) -> Answer:
    """Enqueue the job of a schedule now, apart from its timing.

    This works while the schedule is paused or another of its jobs runs. 200: another job has its unique key."""
    enqueued = await context.service.run_schedule(_checked_name(context))
    location = (("Location", f"/api/v1/jobs/{format_id(enqueued.id)}"),)
    return Answer(enqueued_shape(enqueued), 200 if enqueued.status in ("existing", "ended") else 201, location)


def _checked_name(context: RequestContext[Any, Any]) -> str:
    context.audit_target = context.path["name"]
    context.check_all_queues()
    return context.audit_target
