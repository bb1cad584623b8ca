"""Bounded search for a page of jobs: reads until the page is full or a limit is reached."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from windlass.core.errors import Forbidden
from windlass.core.job import Attempt, Job
from windlass.core.operations import Listing, Page
from windlass.core.text.error_text import error_line
from windlass.dashboard.page_context import PageContext

SCANNED_MAX = 10_000  # jobs, for one page
READS_MAX = 40  # for a token for some queues: skipped jobs of other queues do not count as scanned
TIME_MAX_S = 0.7
LINE_MAX = 400  # characters


class CauseLink(NamedTuple):
    """Job that caused the end of another job."""

    id: str
    name: str


HIDDEN_CAUSE = CauseLink("", "")  # it is in a queue that the principal may not use


class JobSearchResult(msgspec.Struct, frozen=True):
    jobs: list[Job]
    errors: dict[bytes, str]  # id -> last error in one line
    causes: dict[bytes, CauseLink]  # id -> job because of which it ended
    cursor: str  # empty: no more jobs
    looked_at: int
    is_complete: bool = True  # False: there are more queues with such jobs than the list covers


async def search_jobs(page: PageContext[None], listing: Listing, scanned_max: int = SCANNED_MAX) -> JobSearchResult:
    """Search the queues that the principal may use."""
    check_where(page, listing)
    jobs: list[Job] = []
    errors: dict[bytes, str] = {}
    looked_at, reads, is_complete, until_s = 0, 0, True, time.monotonic() + TIME_MAX_S
    while True:
        step = msgspec.structs.replace(listing, most=listing.most - len(jobs))
        batch: Page = await page.service.jobs_within(step, page.principal.queues)
        jobs += batch.jobs
        errors |= {job_id: _error_text(attempt) for job_id, attempt in batch.last_attempts.items()}
        looked_at += max(1, batch.looked_at)
        reads += 1
        is_complete = is_complete and batch.is_complete
        listing = msgspec.structs.replace(listing, cursor=batch.cursor)
        is_enough = looked_at >= scanned_max or (bool(page.principal.queues) and reads >= READS_MAX)
        if not batch.cursor or len(jobs) >= listing.most or is_enough or time.monotonic() > until_s:
            causes = await _causes(page, jobs)
            return JobSearchResult(jobs, errors, causes, batch.cursor, looked_at, is_complete)


def check_where(page: PageContext[Any], listing: Listing) -> None:
    """Raise Forbidden for a search by payload fields on a server that hides payloads: it would confirm guesses."""
    if listing.where and page.hides_payloads:
        raise Forbidden("Payloads are hidden on this server (setting dashboard_hide_payloads), also from searches.")


async def _causes(page: PageContext[None], jobs: Sequence[Job]) -> dict[bytes, CauseLink]:
    consequences = [job.id for job in jobs if job.is_consequence]
    if not consequences:
        return {}
    return {
        job_id: CauseLink(cause.job.key, cause.job.name) if page.may_use(cause.job.queue) else HIDDEN_CAUSE
        for job_id, cause in (await page.service.find_causes(consequences)).items()
    }


def _error_text(attempt: Attempt) -> str:
    return error_line(attempt.reason, attempt.error).strip().partition("\n")[0][:LINE_MAX]
