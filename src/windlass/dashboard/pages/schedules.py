"""List of schedules; and one schedule with its next occurrences, its job and its last runs."""

from __future__ import annotations

import asyncio

import msgspec

from windlass.core.errors import Refusal
from windlass.core.ids import format_id
from windlass.core.job import Job
from windlass.core.scheduling.schedule import ScheduleStatus
from windlass.core.text.schedule_text import describe_recurrence, format_recurrence
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.routes import DashboardRoutes
from windlass.dashboard.views.values import RenderedValue, render_value

from .schedule_forms import Preview, preview_of

routes = DashboardRoutes()


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


class SchedulesView(msgspec.Struct, frozen=True):
    now_ms: int
    rows: list[ScheduleRow]


@routes.page("/schedules", "schedules.html", section="schedules")
async def schedules(page: PageContext[None]) -> SchedulesView:
    """List schedules."""
    now_ms, found = await asyncio.gather(page.service.now(), page.service.schedules())
    page.now_ms = now_ms
    visible = [status for status in found if page.may_use(status.schedule.job.queue)]
    return SchedulesView(now_ms, [_row(status) for status in visible])


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
