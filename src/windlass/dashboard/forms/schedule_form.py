"""Form of a schedule: its fields as typed text, the schedule that they describe, and the errors of single fields."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal, TypeVar

import msgspec

from windlass.core.errors import BadInput, TooLarge
from windlass.core.job import NewJob
from windlass.core.retry import Backoff
from windlass.core.scheduling import cron, repeat
from windlass.core.scheduling.schedule import Misfire, Overlap, Schedule
from windlass.core.text.durations import format_duration, parse_duration_ms
from windlass.core.validation.bounds import INT32_MAX, INT32_MIN, LANE_MAX, NAME_MAX, QUEUE_MAX, UINT32_MAX
from windlass.core.validation.schedules import EVERY_MIN, SCHEDULE_NAME_MAX
from windlass.core.validation.values import check_integer, check_new_name
from windlass.dashboard.routes import Form

from .filters import parse_instant_ms
from .payload import editable_text, read_payload

T = TypeVar("T")
_INTEGER = re.compile(r"[+-]?[0-9]{1,12}", re.ASCII)


class ScheduleForm(Form, frozen=True, kw_only=True):
    """All fields as typed text. Of the recurrence, only the fields of the chosen rule count."""

    name: str = ""
    revision: int = 0  # of the edited schedule; 0: a new one
    overwrite: int = 0  # a newer revision that the person has decided to replace
    queue: str = ""
    job: str = ""
    payload: str | None = None  # None: unchanged
    priority: str = "0"
    attempts: str = "3"
    timeout: str = ""
    keep_result: str = ""
    lane: str = ""
    tags: str = ""
    overlap: Overlap = "allow"
    misfire: Misfire = "latest"
    misfire_after: str = "1m"
    rule: Literal["cron", "every", "repeat"] = "cron"
    cron: str = ""
    timezone: str = "UTC"
    every: str = ""
    repeat: str = ""
    starts: str = ""
    ends: str = ""


def fill_form(schedule: Schedule, revision: int, *, hides_payload: bool) -> ScheduleForm:
    """Return the form with the values of a schedule."""
    job = schedule.job
    return ScheduleForm(
        name=schedule.name,
        revision=revision,
        rule="cron" if schedule.cron else "every" if schedule.every_ms else "repeat",
        cron=schedule.cron,
        timezone=schedule.timezone,
        every=_duration_text(schedule.every_ms),
        repeat=schedule.repeat,
        starts=_instant_text(schedule.starts_at_ms),
        ends=_instant_text(schedule.ends_at_ms),
        queue=job.queue,
        job=job.name,
        payload=None if hides_payload else editable_text(job.payload),
        priority=str(job.priority),
        attempts=str(job.retry.tries),
        timeout=_duration_text(job.timeout_ms),
        keep_result=_duration_text(job.result_ttl_ms),
        lane=job.lane,
        tags=", ".join(job.tags),
        overlap=schedule.overlap,
        misfire=schedule.misfire,
        misfire_after=format_duration(schedule.misfire_after_ms),
    )


def _duration_text(duration_ms: int) -> str:
    return format_duration(duration_ms) if duration_ms else ""


def _instant_text(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(sep=" ").removesuffix("+00:00") if at_ms else ""


class _Reader:
    """Reads fields, and collects the error of each field that cannot be read."""

    def __init__(self) -> None:
        self.errors: dict[str, str] = {}

    def read(self, field: str, parse: Callable[[], T], otherwise: T) -> T:
        try:
            return parse()
        except (BadInput, TooLarge) as error:
            self.errors[field] = str(error)
            return otherwise


def read_schedule(form: ScheduleForm, original: Schedule | None) -> tuple[Schedule, dict[str, str]]:
    """Return the schedule and the errors by field. With errors the schedule is incomplete, and must not be stored. An
    edited schedule keeps what the form does not show."""
    reader = _Reader()
    job = _read_job(reader, form, original.job if original else NewJob(queue="", name="", retry=Backoff()))
    base = original or Schedule(name="", job=job)
    wanted = msgspec.structs.replace(
        read_timing(form, base, reader.errors),
        name=original.name if original else reader.read("name", lambda: _schedule_name(form.name), ""),
        job=job,
        overlap=form.overlap,
        misfire=form.misfire,
        misfire_after_ms=reader.read("misfire_after", lambda: parse_duration_ms(form.misfire_after), 0),
    )
    return wanted, reader.errors


def _read_job(reader: _Reader, form: ScheduleForm, base: NewJob) -> NewJob:
    read = reader.read
    payload = base.payload
    if form.payload is not None:
        text, codec = form.payload, base.payload.codec
        payload = read("payload", lambda: read_payload(text, codec), payload)
    tries = read("attempts", lambda: _integer("The number of attempts", form.attempts, 0, UINT32_MAX), 0)
    return msgspec.structs.replace(
        base,
        queue=read("queue", lambda: _name("The queue", form.queue, QUEUE_MAX), ""),
        name=read("job", lambda: _name("The name of the job", form.job, NAME_MAX), ""),
        payload=payload,
        priority=read("priority", lambda: _integer("The priority", form.priority, INT32_MIN, INT32_MAX), 0),
        retry=msgspec.structs.replace(base.retry, tries=tries),
        timeout_ms=read("timeout", lambda: _optional_duration(form.timeout), 0),
        result_ttl_ms=read("keep_result", lambda: _optional_duration(form.keep_result), 0),
        lane=read("lane", lambda: _name("The lane", form.lane, LANE_MAX, may_be_empty=True), ""),
        tags=tuple(tag.strip() for tag in form.tags.split(",") if tag.strip()),
    )


def read_timing(form: ScheduleForm, base: Schedule, errors: dict[str, str]) -> Schedule:
    """Return `base` with the recurrence of the form, and add the errors of its fields."""
    reader = _Reader()
    rule = form.rule
    expression, zone = form.cron.strip(), form.timezone.strip()
    timing = msgspec.structs.replace(
        base,
        cron=reader.read("cron", lambda: _cron(expression), "") if rule == "cron" else "",
        timezone=reader.read("timezone", lambda: _zone(zone), "UTC") if rule == "cron" else "UTC",
        every_ms=reader.read("every", lambda: _interval_ms(form.every), 0) if rule == "every" else 0,
        repeat=reader.read("repeat", lambda: _repeat(form.repeat.strip()), "") if rule == "repeat" else "",
        starts_at_ms=reader.read("starts", lambda: _optional_instant(form.starts), 0),
        ends_at_ms=reader.read("ends", lambda: _optional_instant(form.ends), 0),
    )
    errors |= reader.errors
    return timing


def _name(what: str, text: str, most_bytes: int, *, may_be_empty: bool = False) -> str:
    check_new_name(what, text.strip(), most_bytes, may_be_empty=may_be_empty)
    return text.strip()


def _schedule_name(text: str) -> str:
    return _name("The name of the schedule", text, SCHEDULE_NAME_MAX)


def _integer(what: str, text: str, low: int, high: int) -> int:
    if not _INTEGER.fullmatch(text.strip()):
        raise BadInput(f"{what} must be a whole number, not {text.strip()!r}.")
    check_integer(what, int(text), low, high)
    return int(text)


def _cron(expression: str) -> str:
    if not expression:
        raise BadInput("Enter minute, hour, day, month and weekday, as in 30 2 * * MON-FRI.")
    cron.parse(expression, "UTC")
    return expression


def _zone(name: str) -> str:
    cron.parse("* * * * *", name)
    return name


def _interval_ms(text: str) -> int:
    every_ms = parse_duration_ms(text)
    if every_ms < EVERY_MIN:
        raise BadInput("The shortest interval is 1s.")
    return every_ms


def _repeat(rule: str) -> str:
    repeat.parse(rule)
    return rule


def _optional_duration(text: str) -> int:
    return parse_duration_ms(text) if text.strip() else 0


def _optional_instant(text: str) -> int:
    return parse_instant_ms(text.strip()) if text.strip() else 0
