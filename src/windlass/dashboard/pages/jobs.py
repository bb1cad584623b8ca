"""Jobs by state, narrowed as wanted, a page at a time."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from windlass.core.job import Job
from windlass.core.queue import QueueStats
from windlass.dashboard.forms.filters import ENDED_LISTS, LISTS, JobsQuery
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.routes import DashboardRoutes
from windlass.dashboard.views.job_search import JobSearchResult, search_jobs

from .actions import describe_listing

routes = DashboardRoutes()

QUEUES_COUNTED = 300  # more than that are not added up for the tabs
QUEUES_OFFERED = 200
LIVE_MAX = 2_000  # a list that looks at more is not asked for again by itself


class JobsView(msgspec.Struct, frozen=True):
    query: JobsQuery
    listed: str  # which list; empty: all states
    counts: dict[str, int] | None  # by list; None: not counted
    queues: list[str]  # to choose from
    found: JobSearchResult
    now_ms: int

    @property
    def jobs(self) -> list[Job]:
        return self.found.jobs

    @property
    def lists(self) -> tuple[str, ...]:
        return LISTS

    @property
    def has_ended(self) -> bool:
        return self.listed in ENDED_LISTS

    @property
    def is_live(self) -> bool:
        return self.found.looked_at <= LIVE_MAX

    @property
    def is_short(self) -> bool:
        """The page is not full, and yet there may be more."""
        return bool(self.found.cursor) and len(self.jobs) < 50

    def tab(self, name: str) -> dict[str, Any]:
        """Of another list the same: what is sought goes along."""
        return {**self.query.fields, "state": name}

    @property
    def about(self) -> str:
        return describe_listing(self.query.listing(self.now_ms))

    @property
    def next_page(self) -> dict[str, Any]:
        return self.query.next_page(self.found.cursor) if self.found.cursor else {}

    @property
    def previous_page(self) -> dict[str, Any]:
        return self.query.previous_page() if self.query.trail else {}

    @property
    def first_page(self) -> dict[str, Any]:
        return {**self.query.fields, "order": self.query.order}

    @property
    def other_order(self) -> dict[str, Any]:
        return {**self.query.fields, "order": "oldest" if self.query.is_newest_first else "newest"}


@routes.page("/jobs", "jobs.html", section="jobs", query=JobsQuery)
async def jobs(page: PageContext[JobsQuery]) -> JobsView:
    """Jobs by state."""
    query = page.query
    if query.queue:
        page.context.check_queue(query.queue)
    page.now_ms = now_ms = await page.service.now()
    listing = msgspec.structs.replace(query.listing(now_ms), newest_first=query.is_newest_first, cursor=query.cursor)
    (queues, counts), found = await asyncio.gather(_queues(page, query), search_jobs(page, listing))  # type: ignore[arg-type]
    return JobsView(query, query.listed, counts, queues[:QUEUES_OFFERED], found, now_ms)


async def _queues(page: PageContext[JobsQuery], query: JobsQuery) -> tuple[list[str], dict[str, int] | None]:
    """All queues to choose from, and how many jobs are in each list of those that are looked at."""
    queues = [name for name in await page.service.queues() if page.may_use(name)]
    counted = [query.queue] if query.queue else queues
    if query.tag or len(counted) > QUEUES_COUNTED:
        return queues, None
    stats: list[QueueStats] = await page.service.stats(counted) if counted else []
    return queues, {name: sum(getattr(one, name) for one in stats) for name in LISTS}
