"""Shapes of schedules."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta

from windlass.core.ids import format_id
from windlass.core.job import NULL_BLOB, NewJob
from windlass.core.retry import ENDLESS
from windlass.core.scheduling.cron import CRON_MAX, TIMEZONE_MAX
from windlass.core.scheduling.repeat import RULE_MAX
from windlass.core.scheduling.schedule import Misfire, Overlap, Schedule, ScheduleStatus
from windlass.core.validation.bounds import DURATION_MAX, UINT32_MAX
from windlass.core.validation.schedules import SCHEDULE_PAUSE_REASON_MAX

from .encoding import Encoding
from .fields import Duration, Given, Id, Instant, Shape, id_or_none
from .new_job import NewJobShape, RetryShape, callback_shape
from .values import ABSENT, write

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


class RevisionQuery(Shape, frozen=True, kw_only=True):
    if_revision: Annotated[
        int, Meta(ge=0, le=UINT32_MAX, description="Only when it has this revision; 0: whatever it has.")
    ] = 0


class PauseScheduleShape(Shape, frozen=True, kw_only=True):
    reason: Annotated[str, Meta(max_length=SCHEDULE_PAUSE_REASON_MAX, description="Shown with the schedule.")] = ""


def _status(status: ScheduleStatus, encoding: Encoding) -> ScheduleStatusShape:
    fields = msgspec.structs.asdict(status.schedule) | msgspec.structs.asdict(status)
    fields |= {"job": _template(status.schedule.job, encoding), "last_job": id_or_none(status.last_job)}
    del fields["schedule"]
    return ScheduleStatusShape(next_at_ms=status.next_at_ms, **fields)


def _template(job: NewJob, encoding: Encoding) -> NewJobShape:
    """As it could be given again: a codec only beside base64."""
    payload = ABSENT if job.payload == NULL_BLOB else write(job.payload, encoding)
    return NewJobShape(
        payload=payload.value,
        payload_base64=payload.base64,
        payload_codec=UNSET if payload.base64 is UNSET else payload.codec,
        retry=None if job.retry == ENDLESS else RetryShape(**msgspec.structs.asdict(job.retry)),
        after=tuple(map(format_id, job.after)),
        callback=None if job.callback is None else callback_shape(job.callback),
        **{field: getattr(job, field) for field in _AS_THEY_ARE},
    )
