"""Forms that create and edit a schedule, and the preview of its next occurrences."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime
from functools import cache
from typing import Any, Literal

import msgspec

from windlass.core.errors import BadInput, RevisionConflict, UnknownSchedule, WindlassError
from windlass.core.job import NewJob
from windlass.core.scheduling import occurrences
from windlass.core.scheduling.schedule import Schedule, ScheduleStatus
from windlass.core.text.schedule_text import describe_recurrence
from windlass.dashboard.forms.schedule_form import ScheduleForm, fill_form, read_schedule, read_timing
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.rendering import HEADERS, HTML, render, render_page
from windlass.dashboard.routes import DashboardRoutes
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import ADMINS
from windlass.web.listener.messages import Response
from windlass.wire.problems import status_for

routes = DashboardRoutes()

OCCURRENCES_SHOWN = 5
QUEUES_OFFERED = 200


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


class ScheduleFormView(msgspec.Struct, frozen=True, kw_only=True):
    form: ScheduleForm
    original: ScheduleStatus | None  # None: a new schedule
    queues: list[str]
    preview: Preview
    errors: dict[str, str] = {}  # by field
    error: str = ""  # about the whole form
    newer_revision: int = 0  # that another person has stored since the form was opened

    @property
    def zones(self) -> tuple[str, ...]:
        return _zones()

    @property
    def has_hidden_payload(self) -> bool:
        return self.form.payload is None


@cache
def _zones() -> tuple[str, ...]:
    return tuple(sorted(zoneinfo.available_timezones()))


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


def _preview_form(form: ScheduleForm, now_ms: int) -> Preview:
    errors: dict[str, str] = {}
    timing = read_timing(form, Schedule(name="", job=NewJob(queue="", name="")), errors)
    if errors:
        return Preview(now_ms, "", "", [], " ".join(errors.values()))
    return preview_of(timing, occurrences.first_at_ms(timing, now_ms), now_ms)


@routes.page("/new-schedule", "schedule_form.html", section="schedules", roles=ADMINS)
async def new_schedule(page: PageContext[None]) -> ScheduleFormView:
    """Show the form for a new schedule."""
    check_may_change(page)
    form = ScheduleForm(cron="0 3 * * *", payload="{}", overlap="skip")
    return await _view(page, form, None)


@routes.page("/schedules/{name}/edit", "schedule_form.html", section="schedules", roles=ADMINS)
async def schedule_edit(page: PageContext[None]) -> ScheduleFormView:
    """Show the form for changes of a schedule."""
    check_may_change(page)
    original = await page.service.schedule_of(page.path_values["name"])
    form = fill_form(original.schedule, original.revision, hides_payload=page.hides_payloads)
    return await _view(page, form, original)


def check_may_change(page: PageContext[Any]) -> None:
    """Schedules concern the whole deployment: as over the API, a token for some queues must not change them."""
    page.context.check_all_queues()


async def redisplay_schedule(page: PageContext[Any], form: ScheduleForm, error: WindlassError) -> Response:
    """Show the form again, with the typed values and the errors."""
    original = await read_original(page, form)
    _, errors = await read_form_fields(page, form, original)
    newer = original.revision if original and isinstance(error, RevisionConflict) else 0
    view = await _view(page, form, original, errors=errors, error="" if errors else str(error), newer_revision=newer)
    page.section = "schedules"
    page.shown_path = page.link("schedules", form.name, "edit") if original else page.link("new-schedule")
    return render_page("schedule_form.html", view, page, status=status_for(error))


async def read_original(page: PageContext[Any], form: ScheduleForm) -> ScheduleStatus | None:
    """Return the schedule that the form edits. None: the form describes a new one."""
    return await page.service.schedule_of(form.name) if form.revision else None


async def read_form_fields(
    page: PageContext[Any], form: ScheduleForm, original: ScheduleStatus | None
) -> tuple[Schedule, dict[str, str]]:
    """Return the schedule of the form and the errors by field. A new schedule must not have the name of another."""
    wanted, errors = read_schedule(form, original.schedule if original else None)
    if original is None and "name" not in errors and await _exists(page, wanted.name):
        errors["name"] = f"A schedule named {wanted.name} exists. Choose another name, or edit that schedule."
    return wanted, errors


async def _exists(page: PageContext[Any], name: str) -> bool:
    try:
        await page.service.schedule_of(name)
    except UnknownSchedule:
        return False
    return True


async def _view(
    page: PageContext[Any], form: ScheduleForm, original: ScheduleStatus | None, **more: Any
) -> ScheduleFormView:
    page.now_ms = await page.service.now()
    queues = [name for name in await page.service.queues() if page.may_use(name)][:QUEUES_OFFERED]
    return ScheduleFormView(
        form=form, original=original, queues=queues, preview=_preview_form(form, page.now_ms), **more
    )


class PreviewQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of the recurrence, as in the form."""

    rule: Literal["cron", "every", "repeat"] = "cron"
    cron: str = ""
    timezone: str = "UTC"
    every: str = ""
    repeat: str = ""
    starts: str = ""
    ends: str = ""


@routes.get("/schedule-preview", roles=ADMINS, query=PreviewQuery, response_media=HTML, is_listed=False)
async def schedule_preview(context: RequestContext[None, PreviewQuery]) -> Response:
    """Render the next occurrences of a recurrence while a person types it."""
    page: PageContext[PreviewQuery] = PageContext(context.state, context.request.head, context)
    page.now_ms = await page.service.now()
    preview = _preview_form(ScheduleForm(**msgspec.structs.asdict(page.query)), page.now_ms)
    return Response(200, render("schedule_preview.html", preview, page), HEADERS, HTML)
