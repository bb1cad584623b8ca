"""What fires by itself: when next, when last, in plain words."""

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
    words: str
    written: str

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
    """What fires by itself."""
    now_ms, found = await asyncio.gather(page.service.now(), page.service.schedules())
    page.now_ms = now_ms
    mine = [one for one in found if page.may_use(one.schedule.job.queue)]
    return SchedulesView(now_ms, [ScheduleRow(one, describe_recurrence(one.schedule), format_recurrence(one.schedule)) for one in mine])
