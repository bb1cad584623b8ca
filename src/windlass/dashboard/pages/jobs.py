"""Lists of jobs by state, with filters and pages."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from windlass.core.errors import Forbidden
from windlass.core.job import Job
from windlass.core.queue import QueueStats
from windlass.core.states import State
from windlass.dashboard.forms.filters import ENDED_LISTS, LISTS, JobsQuery
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.routes import DashboardRoutes
from windlass.dashboard.views.job_search import JobSearchResult, search_jobs
from windlass.dashboard.views.saved_filters import FilterBar, filter_bar
from windlass.dashboard.views.signal_waits import describe_waits, read_open_waits

from .actions import describe_listing

routes = DashboardRoutes()

QUEUES_COUNTED = 300  # with more queues, the tabs show no counts
QUEUES_OFFERED = 200
LIVE_MAX = 2_000  # a list that scans more jobs does not refresh by itself


class JobsView(msgspec.Struct, frozen=True):
    query: JobsQuery
    list_name: str  # empty: all states
    counts: dict[str, int] | None  # by list; None: not counted
    queues: list[str]  # suggestions for the filter
    found: JobSearchResult
    waits: dict[bytes, str]  # of suspended jobs
    now_ms: int
    filters: FilterBar

    @property
    def jobs(self) -> list[Job]:
        return self.found.jobs

    @property
    def lists(self) -> tuple[str, ...]:
        return LISTS

    @property
    def has_ended(self) -> bool:
        return self.list_name in ENDED_LISTS

    @property
    def is_live(self) -> bool:
        return self.found.looked_at <= LIVE_MAX and not self.query.text

    @property
    def misses_queues(self) -> bool:
        """Whether there are more queues than the list covers."""
        return not self.found.is_complete

    @property
    def is_short(self) -> bool:
        """Whether the page is not full although more jobs may match."""
        return bool(self.found.cursor) and len(self.jobs) < 50

    def tab(self, name: str) -> dict[str, Any]:
        """Return the query of another list with the same filters."""
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
    """List jobs by state."""
    query = page.query
    if query.queue:
        page.context.check_queue(query.queue)
    if query.text and page.hides_payloads:
        raise Forbidden(
            "Payloads are hidden on this server (setting dashboard_hide_payloads), so they are not searched."
        )
    page.now_ms = now_ms = await page.service.now()
    listing = msgspec.structs.replace(query.listing(now_ms), newest_first=query.is_newest_first, cursor=query.cursor)
    (queues, counts), found = await asyncio.gather(_queues(page, query), search_jobs(page, listing))  # type: ignore[arg-type]
    suspended = [job for job in found.jobs if job.state is State.SUSPENDED]
    waits = {job_id: describe_waits(steps) for job_id, steps in (await read_open_waits(page, suspended)).items()}
    return JobsView(
        query, query.list_name, counts, queues[:QUEUES_OFFERED], found, waits, now_ms, await filter_bar(page, "jobs")
    )


async def _queues(page: PageContext[JobsQuery], query: JobsQuery) -> tuple[list[str], dict[str, int] | None]:
    """Return the queues that the principal may use, and the number of jobs in each list of the selected queues."""
    queues = await page.service.queues()
    if page.principal.queues:
        queues = [name for name in queues if page.may_use(name)]
    counted = [query.queue] if query.queue else queues
    if query.is_by_label or query.text or len(counted) > QUEUES_COUNTED:
        return queues, None
    stats: list[QueueStats] = await page.service.stats(counted) if counted else []
    return queues, {name: sum(getattr(queue, name) for queue in stats) for name in LISTS}
