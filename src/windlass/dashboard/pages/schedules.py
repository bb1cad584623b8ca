"""Schedules with their next and last occurrence."""

from __future__ import annotations

import asyncio

import msgspec

from windlass.core.ids import format_id
from windlass.core.scheduling.schedule import ScheduleStatus
from windlass.core.text.schedule_text import describe_recurrence, format_recurrence
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.routes import DashboardRoutes

routes = DashboardRoutes()


class ScheduleRow(msgspec.Struct, frozen=True):
    status: ScheduleStatus
    description: str  # in words
    rule: str  # as it was defined

    @property
    def name(self) -> str:
        return self.status.schedule.name

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
    return ScheduleRow(status, describe_recurrence(status.schedule), format_recurrence(status.schedule))
