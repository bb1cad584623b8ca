"""Checks of schedules."""

from __future__ import annotations

from typing import Any

from windlass.core.errors import BadInput
from windlass.core.job import NewJob
from windlass.core.scheduling.cron import CRON_MAX, TIMEZONE_MAX
from windlass.core.scheduling.cron import parse as parse_cron
from windlass.core.scheduling.repeat import RULE_MAX
from windlass.core.scheduling.schedule import Schedule
from windlass.core.text.durations import INSTANT_MAX

from .bounds import DURATION_MAX, PAYLOAD_MAX
from .jobs import check_new_job, check_repeat
from .values import check_instance, check_integer, check_new_name, check_text

SCHEDULE_NAME_MAX = 255
SCHEDULE_PAUSE_REASON_MAX = 1024
EVERY_MIN = 1_000
# Fields that the schedule sets itself, or that make no sense for a job that is created repeatedly.
_NOT_IN_TEMPLATE = (
    "id", "run_at_ms", "delay_ms", "expires_at_ms", "if_revision", "repeat", "debounce_ms", "throttle_ms", "parent",
    "cap", "flow",
)  # fmt: skip


def check_schedule(schedule: Any, payload_max: int = PAYLOAD_MAX) -> None:
    """Raise a refusal that names the error."""
    check_instance("A schedule", schedule, Schedule)
    check_new_name("name", schedule.name, SCHEDULE_NAME_MAX)
    check_new_job(schedule.job, payload_max)
    _check_template(schedule.job)
    _check_recurrence(schedule)
    check_integer("starts_at_ms", schedule.starts_at_ms, 0, INSTANT_MAX)
    check_integer("ends_at_ms", schedule.ends_at_ms, 0, INSTANT_MAX)
    check_integer("misfire_after_ms", schedule.misfire_after_ms, 0, DURATION_MAX)
    if schedule.overlap not in ("allow", "skip", "replace"):
        raise BadInput(f"overlap must be allow, skip or replace, not {schedule.overlap!r}.")
    if schedule.misfire not in ("all", "latest", "none"):
        raise BadInput(f"misfire must be all, latest or none, not {schedule.misfire!r}.")


def _check_template(job: NewJob) -> None:
    plain = NewJob(queue=job.queue, name=job.name)
    for field in _NOT_IN_TEMPLATE:
        if getattr(job, field) != getattr(plain, field):
            raise BadInput(f"The job of a schedule must not have {field}: a new job is created for each occurrence.")


def _check_recurrence(schedule: Schedule) -> None:
    check_text("cron", schedule.cron, CRON_MAX, may_be_empty=True)
    check_text("timezone", schedule.timezone, TIMEZONE_MAX)
    if schedule.every_ms != 0:
        check_integer("every_ms", schedule.every_ms, EVERY_MIN, DURATION_MAX)
    check_text("repeat", schedule.repeat, RULE_MAX, may_be_empty=True)
    if bool(schedule.cron) + bool(schedule.every_ms) + bool(schedule.repeat) != 1:
        raise BadInput("Give exactly one of cron, every_ms and repeat.")
    if schedule.repeat:
        check_repeat(schedule.repeat)
    elif schedule.cron:
        parse_cron(schedule.cron, schedule.timezone)
    if schedule.timezone != "UTC" and not schedule.cron:
        raise BadInput("timezone needs cron; the other recurrences are in UTC.")
