"""A schedule: which job, in which rhythm, and what happens when runs overlap or were missed. When its occurrences are
is in occurrences.py."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from windlass.core.errors import BadInput
from windlass.core.job import NewJob
from windlass.core.text.durations import INSTANT_MAX
from windlass.core.validation import jobs as check

from .cron import CRON_MAX, TIMEZONE_MAX
from .cron import parse as parse_cron
from .repeat import RULE_MAX, is_same

NAME_MAX = 255
PAUSE_REASON_MAX = 1024
EVERY_MIN = 1_000
Overlap: TypeAlias = Literal["allow", "skip", "replace"]
Misfire: TypeAlias = Literal["all", "latest", "none"]
# What a schedule decides itself, or what makes no sense for the same job again and again.
_NOT_IN_TEMPLATE = (
    "id", "run_at_ms", "delay_ms", "expires_at_ms", "if_revision", "repeat", "debounce_ms", "throttle_ms", "parent",
    "cap",
)  # fmt: skip


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """Its rhythm is exactly one of `cron`, `every_ms` and `repeat`."""

    name: str  # unique in the deployment
    job: NewJob  # made for each occurrence
    cron: str = ""  # five fields, or six with seconds first
    timezone: str = "UTC"  # of the cron expression
    every_ms: int = 0  # counted from starts_at_ms, or from its creation
    repeat: str = ""  # a rule, see repeat.py; for STARTED and FINISHED, an occurrence is over when it has fired
    overlap: Overlap = "allow"  # when a job of an earlier occurrence has not ended
    misfire: Misfire = "latest"  # which of the missed occurrences are made up for
    misfire_after_ms: int = 60_000  # an occurrence that is later than this counts as missed
    starts_at_ms: int = 0  # no occurrence before; 0: now
    ends_at_ms: int = 0  # no occurrence after; 0: never ends

    def has_rhythm_of(self, other: Schedule) -> bool:
        fields = ("cron", "timezone", "every_ms", "starts_at_ms", "ends_at_ms")
        return is_same(self.repeat, other.repeat) and all(getattr(self, one) == getattr(other, one) for one in fields)


class ScheduleStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as it stands at one instant."""

    schedule: Schedule
    revision: int  # grows with each change, pause and resume; not with its occurrences
    created_at_ms: int
    planned_at_ms: int | None  # its next occurrence, also while it is paused; None: it is over
    is_paused: bool
    pause_reason: str
    last_planned_at_ms: int | None  # the occurrence of its last job; of a run by hand, the instant of it
    last_fired_at_ms: int | None
    last_job: bytes | None
    fired: int  # jobs made
    skipped: int  # occurrences without a job: an earlier one had not ended, or held its unique key
    missed: int  # occurrences that were too late, or found their queue full

    @property
    def next_at_ms(self) -> int | None:
        """When it fires next; None: it is paused or over."""
        return None if self.is_paused else self.planned_at_ms


def validate(schedule: Any, payload_max: int = check.PAYLOAD_MAX) -> None:
    """Raises a refusal that says what is wrong."""
    check.instance("A schedule", schedule, Schedule)
    check.new_name("name", schedule.name, NAME_MAX)
    check.new_job(schedule.job, payload_max)
    _check_template(schedule.job)
    _check_rhythm(schedule)
    check.whole("starts_at_ms", schedule.starts_at_ms, 0, INSTANT_MAX)
    check.whole("ends_at_ms", schedule.ends_at_ms, 0, INSTANT_MAX)
    check.whole("misfire_after_ms", schedule.misfire_after_ms, 0, check.DURATION_MAX)
    if schedule.overlap not in ("allow", "skip", "replace"):
        raise BadInput(f"overlap must be allow, skip or replace, not {schedule.overlap!r}.")
    if schedule.misfire not in ("all", "latest", "none"):
        raise BadInput(f"misfire must be all, latest or none, not {schedule.misfire!r}.")


def _check_template(job: NewJob) -> None:
    plain = NewJob(queue=job.queue, name=job.name)
    for field in _NOT_IN_TEMPLATE:
        if getattr(job, field) != getattr(plain, field):
            raise BadInput(f"The job of a schedule has no {field}: it is made anew for each occurrence.")


def _check_rhythm(schedule: Schedule) -> None:
    check.text("cron", schedule.cron, CRON_MAX, may_be_empty=True)
    check.text("timezone", schedule.timezone, TIMEZONE_MAX)
    if schedule.every_ms != 0:
        check.whole("every_ms", schedule.every_ms, EVERY_MIN, check.DURATION_MAX)
    check.text("repeat", schedule.repeat, RULE_MAX, may_be_empty=True)
    if bool(schedule.cron) + bool(schedule.every_ms) + bool(schedule.repeat) != 1:
        raise BadInput("Give exactly one of cron, every_ms and repeat.")
    if schedule.repeat:
        check.repeat(schedule.repeat)
    elif schedule.cron:
        parse_cron(schedule.cron, schedule.timezone)
    if schedule.timezone != "UTC" and not schedule.cron:
        raise BadInput("timezone goes with cron; the other rhythms are in UTC.")
