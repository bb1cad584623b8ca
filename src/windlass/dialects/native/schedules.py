"""Schedules: made, changed, paused, run by hand, read."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import UNSET, Meta

from windlass.core import errors
from windlass.core.ids import format_id
from windlass.core.job import NOTHING, NewJob
from windlass.core.retry import ENDLESS
from windlass.core.scheduling.cron import CRON_MAX, TIMEZONE_MAX
from windlass.core.scheduling.repeat import RULE_MAX
from windlass.core.scheduling.schedule import Misfire, Overlap, Schedule, ScheduleStatus
from windlass.core.validation.bounds import DURATION_MAX, UINT32_MAX
from windlass.core.validation.schedules import SCHEDULE_PAUSE_REASON_MAX
from windlass.web.app.encoding import Encoding
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import ADMIN, READS, Answer, Routes

from .enqueue import EnqueuedShape, enqueued_shape
from .shapes import Duration, Given, Id, Instant, NewJobShape, RetryShape, Shape, callback_shape, id_or_none
from .values import ABSENT, write

routes = Routes("/api/v1", tag="Schedules")

_KNOWN = (errors.TooLarge, errors.UnknownSchedule)
_CHANGING = {"roles": ADMIN, "is_audited": True}
_AS_THEY_ARE = (
    "queue", "name", "priority", "expires_in_ms", "lane", "unique", "unique_check", "unique_while_kept", "lease_ms",
    "lease_rule", "retake", "hidden", "timeout_ms", "result_ttl_ms", "tags", "trace", "joins", "on_failure",
)  # fmt: skip


class ScheduleShape(Shape, frozen=True, kw_only=True):
    """A schedule to be made. Its rhythm is exactly one of `cron`, `every_ms` and `repeat`."""

    job: Annotated[NewJobShape, Meta(description="Made for each occurrence: without an id and times of its own.")]
    cron: Annotated[str, Meta(max_length=CRON_MAX, description="Five fields, or six with seconds first.")] = ""
    timezone: Annotated[str, Meta(min_length=1, max_length=TIMEZONE_MAX, description="Of the cron expression.")] = "UTC"
    every_ms: Annotated[
        int, Meta(ge=0, le=DURATION_MAX, description="At least 1,000; from starts_at_ms, or its creation.")
    ] = 0
    repeat: Annotated[str, Meta(max_length=RULE_MAX, description="A rule.")] = ""
    overlap: Annotated[Overlap, Meta(description="When a job of an earlier occurrence has not ended.")] = "allow"
    misfire: Annotated[Misfire, Meta(description="Which of the missed occurrences are made up for.")] = "latest"
    misfire_after_ms: Duration = 60_000
    starts_at_ms: Instant = 0
    ends_at_ms: Instant = 0

    def schedule(self, name: str, encoding: Encoding) -> Schedule:
        rhythm = {field: getattr(self, field) for field in self.__struct_fields__ if field != "job"}
        return Schedule(name=name, job=self.job.new_job(encoding), **rhythm)


class ScheduleStatusShape(Given, frozen=True, kw_only=True):
    """A schedule as it stands at one instant."""

    name: str
    job: NewJobShape
    cron: str
    timezone: str
    every_ms: int
    repeat: str
    overlap: Overlap
    misfire: Misfire
    misfire_after_ms: int
    starts_at_ms: int
    ends_at_ms: int
    revision: Annotated[int, Meta(description="Grows with each change, pause and resume.")]
    created_at_ms: int
    next_at_ms: Annotated[int | None, Meta(description="When it fires next; null: it is paused or over.")]
    planned_at_ms: Annotated[int | None, Meta(description="Its next occurrence, paused or not; null: it is over.")]
    is_paused: bool
    pause_reason: str
    last_planned_at_ms: int | None
    last_fired_at_ms: int | None
    last_job: Id | None
    fired: Annotated[int, Meta(description="Jobs made.")]
    skipped: Annotated[int, Meta(description="Occurrences without a job, because of an earlier one.")]
    missed: Annotated[int, Meta(description="Occurrences that were too late, or found their queue full.")]


class SchedulesShape(Given, frozen=True, kw_only=True):
    schedules: list[ScheduleStatusShape]


def _status(status: ScheduleStatus, encoding: Encoding) -> ScheduleStatusShape:
    fields = msgspec.structs.asdict(status.schedule) | msgspec.structs.asdict(status)
    fields |= {"job": _template(status.schedule.job, encoding), "last_job": id_or_none(status.last_job)}
    del fields["schedule"]
    return ScheduleStatusShape(next_at_ms=status.next_at_ms, **fields)


def _template(job: NewJob, encoding: Encoding) -> NewJobShape:
    """As it could be given again: a codec only beside base64."""
    payload = ABSENT if job.payload == NOTHING else write(job.payload, encoding)
    return NewJobShape(
        payload=payload.value,
        payload_base64=payload.base64,
        payload_codec=UNSET if payload.base64 is UNSET else payload.codec,
        retry=None if job.retry == ENDLESS else RetryShape(**msgspec.structs.asdict(job.retry)),
        after=tuple(map(format_id, job.after)),
        callback=None if job.callback is None else callback_shape(job.callback),
        **{field: getattr(job, field) for field in _AS_THEY_ARE},
    )


class RevisionQuery(Shape, frozen=True, kw_only=True):
    if_revision: Annotated[
        int, Meta(ge=0, le=UINT32_MAX, description="Only when it has this revision; 0: whatever it has.")
    ] = 0


AskByName: TypeAlias = RequestContext[None, None]


@routes.get("/schedules", roles=READS, response=SchedulesShape)
async def schedules(context: AskByName) -> SchedulesShape:
    """All schedules, by name.

    A token for some queues is shown those that make jobs there."""
    found = [one for one in await context.service.schedules() if context.principal.may_use(one.schedule.job.queue)]
    return SchedulesShape(schedules=[_status(one, context.response_encoding) for one in found])


@routes.get("/schedules/{name}", roles=READS, response=ScheduleStatusShape, refuses=_KNOWN)
async def schedule(context: AskByName) -> ScheduleStatusShape:
    """One schedule: its rhythm, its job, its next and last occurrence."""
    found = await context.service.schedule_of(context.path["name"])
    context.check_found(found.schedule.job.queue, "this schedule")
    return _status(found, context.response_encoding)


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
    return _status(
        await context.service.schedule(wanted, if_revision=context.query.if_revision), context.response_encoding
    )


@routes.delete(
    "/schedules/{name}", query=RevisionQuery, refuses=(*_KNOWN, errors.RevisionConflict, errors.EngineFull), **_CHANGING
)
async def remove_schedule(context: RequestContext[None, RevisionQuery]) -> None:
    """Remove a schedule; the jobs that it made stay."""
    await context.service.unschedule(_changed(context), if_revision=context.query.if_revision)


class PauseScheduleShape(Shape, frozen=True, kw_only=True):
    reason: Annotated[str, Meta(max_length=SCHEDULE_PAUSE_REASON_MAX, description="Shown with the schedule.")] = ""


@routes.post(
    "/schedules/{name}/pause", body=PauseScheduleShape, response=ScheduleStatusShape,
    refuses=(*_KNOWN, errors.EngineFull), **_CHANGING,
)  # fmt: skip
async def pause_schedule(context: RequestContext[PauseScheduleShape, None]) -> ScheduleStatusShape:
    """Let a schedule fire no more until it is resumed."""
    name = _changed(context)
    context.audit_detail = context.body.reason
    return _status(await context.service.pause_schedule(name, reason=context.body.reason), context.response_encoding)


@routes.post(
    "/schedules/{name}/resume", response=ScheduleStatusShape, refuses=(*_KNOWN, errors.EngineFull), **_CHANGING
)
async def resume_schedule(context: AskByName) -> ScheduleStatusShape:
    """Let a paused schedule go on with its next occurrence.

    What came while it was paused is passed over."""
    return _status(await context.service.resume_schedule(_changed(context)), context.response_encoding)


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
