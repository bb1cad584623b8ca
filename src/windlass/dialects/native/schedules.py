"""Schedules: made, changed, paused, run by hand, read."""

from __future__ import annotations

from typing import Any, TypeAlias

from windlass.core import errors
from windlass.core.ids import format_id
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import ADMIN, READS, Answer, Routes
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
_CHANGING = {"roles": ADMIN, "is_audited": True}


AskByName: TypeAlias = RequestContext[None, None]


@routes.get("/schedules", roles=READS, response=SchedulesShape)
async def schedules(context: AskByName) -> SchedulesShape:
    """All schedules, by name.

    A token for some queues is shown those that make jobs there."""
    found = [one for one in await context.service.schedules() if context.principal.may_use(one.schedule.job.queue)]
    return SchedulesShape(schedules=[schedule_status_shape(one, context.response_encoding) for one in found])


@routes.get("/schedules/{name}", roles=READS, response=ScheduleStatusShape, refuses=_KNOWN)
async def schedule(context: AskByName) -> ScheduleStatusShape:
    """One schedule: its rhythm, its job, its next and last occurrence."""
    found = await context.service.schedule_of(context.path["name"])
    context.check_found(found.schedule.job.queue, "this schedule")
    return schedule_status_shape(found, context.response_encoding)


@routes.put(
    "/schedules/{name}", body=ScheduleShape, query=RevisionQuery, response=ScheduleStatusShape,
    refuses=(errors.TooLarge, errors.RevisionConflict, errors.CrossPartition, errors.EngineFull), **_CHANGING,
)  # fmt: skip
async def set_schedule(context: RequestContext[ScheduleShape, RevisionQuery]) -> ScheduleStatusShape:
    """Make a schedule, or change the one of this name.

    Its next occurrence is computed anew when its rhythm is another. One that is the same already is left alone."""
    name = _changed(context)
    context.audit_detail = f"jobs {context.body.job.name} in {context.body.job.queue}"
    wanted = context.body.schedule(name, context.body_encoding)
    return schedule_status_shape(
        await context.service.schedule(wanted, if_revision=context.query.if_revision), context.response_encoding
    )


@routes.delete(
    "/schedules/{name}", query=RevisionQuery, refuses=(*_KNOWN, errors.RevisionConflict, errors.EngineFull), **_CHANGING
)
async def remove_schedule(context: RequestContext[None, RevisionQuery]) -> None:
    """Remove a schedule; the jobs that it made stay."""
    await context.service.unschedule(_changed(context), if_revision=context.query.if_revision)


@routes.post(
    "/schedules/{name}/pause", body=PauseScheduleShape, response=ScheduleStatusShape,
    refuses=(*_KNOWN, errors.EngineFull), **_CHANGING,
)  # fmt: skip
async def pause_schedule(context: RequestContext[PauseScheduleShape, None]) -> ScheduleStatusShape:
    """Let a schedule fire no more until it is resumed."""
    name = _changed(context)
    context.audit_detail = context.body.reason
    return schedule_status_shape(
        await context.service.pause_schedule(name, reason=context.body.reason), context.response_encoding
    )


@routes.post(
    "/schedules/{name}/resume", response=ScheduleStatusShape, refuses=(*_KNOWN, errors.EngineFull), **_CHANGING
)
async def resume_schedule(context: AskByName) -> ScheduleStatusShape:
    """Let a paused schedule go on with its next occurrence.

    What came while it was paused is passed over."""
    return schedule_status_shape(await context.service.resume_schedule(_changed(context)), context.response_encoding)


@routes.post(
    "/schedules/{name}/run", response=EnqueuedShape, status=201, other_responses={200: EnqueuedShape},
    refuses=(*_KNOWN, errors.QueueFull, errors.EngineFull, errors.UnknownMember, errors.CrossPartition), **_CHANGING,
)  # fmt: skip
async def run_schedule(context: AskByName) -> Answer:
    """Make the job of a schedule now, apart from its rhythm.

    Also when it is paused, or when another of its jobs runs. 200 when another job holds its unique key."""
    done = await context.service.run_schedule(_changed(context))
    location = (("Location", f"/api/v1/jobs/{format_id(done.id)}"),)
    return Answer(enqueued_shape(done), 200 if done.status in ("existing", "ended") else 201, location)


def _changed(context: RequestContext[Any, Any]) -> str:
    context.audit_target = context.path["name"]
    context.check_all_queues()
    return context.audit_target
