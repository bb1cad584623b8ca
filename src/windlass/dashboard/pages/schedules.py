"""List of schedules; one schedule with its next occurrences, its job and its last runs; and the forms that create and
edit a schedule."""

from __future__ import annotations

import asyncio
import zoneinfo
from functools import cache
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from windlass.core.errors import Refusal, RevisionConflict, UnknownSchedule, WindlassError
from windlass.core.ids import format_id
from windlass.core.job import Job
from windlass.core.scheduling.schedule import Schedule, ScheduleStatus
from windlass.core.text.schedule_text import describe_recurrence, format_recurrence
from windlass.dashboard.forms.schedule_form import ScheduleForm, fill_form, read_schedule
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.rendering import HEADERS, HTML, render, render_page
from windlass.dashboard.routes import DashboardRoutes
from windlass.dashboard.views.queue_names import offered_queues
from windlass.dashboard.views.schedule_preview import Preview, preview_form, preview_of
from windlass.dashboard.views.values import RenderedValue, render_value
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import ADMINS
from windlass.web.listener.messages import Response
from windlass.wire.problems import status_for

routes = DashboardRoutes()

SCHEDULES_PER_PAGE = 100
SEARCH_MAX = 200


class ScheduleRow(msgspec.Struct, frozen=True):
    status: ScheduleStatus
    description: str  # in words, without the time zone
    rule: str  # as it was defined

    @property
    def name(self) -> str:
        return self.status.schedule.name

    @property
    def zone(self) -> str:
        """Time zone of the rule; empty: the rule has none, because it counts from an instant."""
        return self.status.schedule.timezone if self.status.schedule.cron else ""

    @property
    def last_job(self) -> str:
        return format_id(self.status.last_job) if self.status.last_job else ""


class SchedulesQuery(msgspec.Struct, frozen=True, kw_only=True):
    search: Annotated[str, Meta(max_length=SEARCH_MAX)] = ""
    after: str = ""


class SchedulesView(msgspec.Struct, frozen=True):
    now_ms: int
    query: SchedulesQuery
    rows: list[ScheduleRow]
    following: str  # name after which the next page starts; empty: this is the last page
    count: int | None  # of all schedules; None: the viewer may not see all

    @property
    def has_search(self) -> bool:
        """Whether there is a form for a search: for few schedules it would only be in the way."""
        return bool(self.query.search or self.query.after or self.following)


@routes.page("/schedules", "schedules.html", section="schedules", query=SchedulesQuery)
async def schedules(page: PageContext[SchedulesQuery]) -> SchedulesView:
    """List schedules by name."""
    query, patterns = page.query, page.principal.queues
    reading = page.service.schedules_page(
        after=query.after, most=SCHEDULES_PER_PAGE, search=query.search.strip(), queues=patterns
    )
    now_ms, found = await asyncio.gather(page.service.now(), reading)
    page.now_ms = now_ms
    is_whole = not (found.after or query.after or query.search)
    count = len(found.schedules) if is_whole else None if patterns else found.count
    return SchedulesView(now_ms, query, [_row(status) for status in found.schedules], found.after, count)


def _row(status: ScheduleStatus) -> ScheduleRow:
    in_utc = msgspec.structs.replace(status.schedule, timezone="UTC")
    return ScheduleRow(status, describe_recurrence(in_utc), format_recurrence(in_utc))


class Run(msgspec.Struct, frozen=True):
    """A job of the schedule."""

    job: Job

    @property
    def duration_ms(self) -> int | None:
        """Duration of its last attempt; None: it has not ended, or never started."""
        job = self.job
        return job.ended_at_ms - job.started_at_ms if job.ended_at_ms and job.started_at_ms else None


class ScheduleView(msgspec.Struct, frozen=True, kw_only=True):
    now_ms: int
    row: ScheduleRow
    preview: Preview
    payload: RenderedValue | None  # None: payloads are hidden
    runs: list[Run]  # the newest first
    removed: int  # jobs of the last runs that no longer exist

    @property
    def status(self) -> ScheduleStatus:
        return self.row.status


@routes.page("/schedules/{name}", "schedule.html", section="schedules")
async def schedule(page: PageContext[None]) -> ScheduleView:
    """Show a schedule with its last runs."""
    now_ms, status = await asyncio.gather(page.service.now(), page.service.schedule_of(page.path_values["name"]))
    page.context.check_found(status.schedule.job.queue, "this schedule")
    page.now_ms = now_ms
    answers = await page.service.job(status.last_jobs) if status.last_jobs else []
    found = [answer.job for answer in answers if not isinstance(answer, Refusal)]
    return ScheduleView(
        now_ms=now_ms,
        row=_row(status),
        preview=preview_of(status.schedule, status.next_at_ms, now_ms),
        payload=None if page.hides_payloads else render_value(status.schedule.job.payload),
        runs=[Run(job) for job in found if page.may_use(job.queue)],
        removed=len(answers) - len(found),
    )


# Forms


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
    queues = await offered_queues(page)
    return ScheduleFormView(
        form=form, original=original, queues=queues, preview=preview_form(form, page.now_ms), **more
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
    preview = preview_form(ScheduleForm(**msgspec.structs.asdict(page.query)), page.now_ms)
    return Response(200, render("schedule_preview.html", preview, page), HEADERS, HTML)
