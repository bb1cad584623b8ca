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
from .fields import Duration, Id, Instant, format_optional_id
from .new_job import NewJobShape, RetryShape, callback_shape
from .shape import RequestShape, ResponseShape
from .values import NO_VALUE, encode_value

_UNCHANGED_FIELDS = (
    "queue", "name", "priority", "expires_in_ms", "lane", "unique", "unique_check", "unique_while_kept", "lease_ms",
    "lease_rule", "retake", "hidden", "timeout_ms", "result_ttl_ms", "tags", "index", "trace", "joins", "on_failure",
)  # fmt: skip


class ScheduleShape(RequestShape, frozen=True, kw_only=True):
    """A schedule to set. Give exactly one of `cron`, `every_ms` and `repeat`."""

    job: Annotated[NewJobShape, Meta(description="The job to enqueue for each occurrence, without an id and times.")]
    cron: Annotated[str, Meta(max_length=CRON_MAX, description="Five fields, or six with seconds first.")] = ""
    timezone: Annotated[
        str, Meta(min_length=1, max_length=TIMEZONE_MAX, description="The time zone of the cron expression.")
    ] = "UTC"
    every_ms: Annotated[
        int, Meta(ge=0, le=DURATION_MAX, description="At least 1,000; counted from starts_at_ms, or from the creation.")
    ] = 0
    repeat: Annotated[str, Meta(max_length=RULE_MAX, description="A repeat rule.")] = ""
    overlap: Annotated[Overlap, Meta(description="What to do if a job of an earlier occurrence has not ended.")] = (
        "allow"
    )
    misfire: Annotated[Misfire, Meta(description="Which missed occurrences to enqueue later.")] = "latest"
    misfire_after_ms: Duration = 60_000
    starts_at_ms: Instant = 0
    ends_at_ms: Instant = 0

    def schedule(self, name: str, encoding: Encoding) -> Schedule:
        timing = {field: getattr(self, field) for field in self.__struct_fields__ if field != "job"}
        return Schedule(name=name, job=self.job.new_job(encoding), **timing)


class ScheduleStatusShape(ResponseShape, frozen=True, kw_only=True):
    """A schedule at one instant."""

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
    revision: Annotated[int, Meta(description="Increases with each change, pause and resume.")]
    created_at_ms: int
    next_at_ms: Annotated[int | None, Meta(description="When it fires next; null: it is paused or has ended.")]
    planned_at_ms: Annotated[int | None, Meta(description="Its next occurrence, paused or not; null: it has ended.")]
    is_paused: bool
    pause_reason: str
    last_planned_at_ms: int | None
    last_fired_at_ms: int | None
    last_job: Id | None
    fired: Annotated[int, Meta(description="Jobs enqueued.")]
    skipped: Annotated[
        int, Meta(description="Occurrences without a job, because a job of an earlier occurrence had not ended.")
    ]
    missed: Annotated[int, Meta(description="Occurrences that were too late, or whose queue was full.")]
    last_jobs: Annotated[
        tuple[Id, ...],
        Meta(description="The jobs of the last 20 occurrences, the newest first. Some may no longer exist."),
    ] = ()


class SchedulesShape(ResponseShape, frozen=True, kw_only=True):
    schedules: list[ScheduleStatusShape]


class RevisionQuery(RequestShape, frozen=True, kw_only=True):
    if_revision: Annotated[
        int, Meta(ge=0, le=UINT32_MAX, description="Change only if the schedule has this revision; 0: any revision.")
    ] = 0


class PauseScheduleShape(RequestShape, frozen=True, kw_only=True):
    reason: Annotated[str, Meta(max_length=SCHEDULE_PAUSE_REASON_MAX, description="Shown with the schedule.")] = ""


def schedule_status_shape(status: ScheduleStatus, encoding: Encoding) -> ScheduleStatusShape:
    fields = msgspec.structs.asdict(status.schedule) | msgspec.structs.asdict(status)
    fields |= {
        "job": _job_template_shape(status.schedule.job, encoding),
        "last_job": format_optional_id(status.last_job),
        "last_jobs": tuple(map(format_id, status.last_jobs)),
    }
    del fields["schedule"]
    return ScheduleStatusShape(next_at_ms=status.next_at_ms, **fields)


def _job_template_shape(job: NewJob, encoding: Encoding) -> NewJobShape:
    """Convert to a shape that can be sent again: `payload_codec` is only set beside `payload_base64`."""
    payload = NO_VALUE if job.payload == NULL_BLOB else encode_value(job.payload, encoding)
    return NewJobShape(
        payload=payload.value,
        payload_base64=payload.base64,
        payload_codec=UNSET if payload.base64 is UNSET else payload.codec,
        retry=None if job.retry == ENDLESS else RetryShape(**msgspec.structs.asdict(job.retry)),
        after=tuple(map(format_id, job.after)),
        callback=None if job.callback is None else callback_shape(job.callback),
        **{field: getattr(job, field) for field in _UNCHANGED_FIELDS},
    )
