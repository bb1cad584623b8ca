"""Preview of a schedule: its recurrence in words, and its next occurrences in its time zone."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime

import msgspec

from windlass.core.errors import BadInput
from windlass.core.job import NewJob
from windlass.core.scheduling import occurrences
from windlass.core.scheduling.schedule import Schedule
from windlass.core.text.schedule_text import describe_recurrence
from windlass.dashboard.forms.schedule_form import ScheduleForm, read_timing

OCCURRENCES_SHOWN = 5


class Occurrence(msgspec.Struct, frozen=True):
    at_ms: int
    text: str  # in the time zone of the schedule


class Preview(msgspec.Struct, frozen=True):
    """The recurrence in words, and the next occurrences. `error` says why there are none."""

    now_ms: int
    description: str
    zone: str
    occurrences: list[Occurrence]
    error: str = ""


def preview_of(schedule: Schedule, next_at_ms: int | None, now_ms: int) -> Preview:
    try:
        found = occurrences.upcoming_ms(schedule, next_at_ms, OCCURRENCES_SHOWN)
    except BadInput as error:  # for example, this host does not know the time zone
        return Preview(now_ms, "", "", [], str(error))
    zone = zoneinfo.ZoneInfo(schedule.timezone)
    shown = [Occurrence(at_ms, _local_text(at_ms, zone)) for at_ms in found]
    nothing = "" if shown else "It has no next occurrence: check the rule, the start and the end."
    return Preview(now_ms, describe_recurrence(schedule), schedule.timezone, shown, nothing)


def _local_text(at_ms: int, zone: zoneinfo.ZoneInfo) -> str:
    local = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(zone)
    return f"{local:%a %d %b %Y, %H:%M}{f':{local:%S}' if local.second else ''}"


def preview_form(form: ScheduleForm, now_ms: int) -> Preview:
    errors: dict[str, str] = {}
    timing = read_timing(form, Schedule(name="", job=NewJob(queue="", name="")), errors)
    if errors:
        return Preview(now_ms, "", "", [], " ".join(errors.values()))
    return preview_of(timing, occurrences.first_at_ms(timing, now_ms), now_ms)
