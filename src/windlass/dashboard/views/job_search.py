"""A page of jobs for people: goes on until it is full, or enough has been looked at."""

from __future__ import annotations

import time

import msgspec

from windlass.core.job import Attempt, Job
from windlass.core.operations import Listing, Page
from windlass.core.text.error_text import error_line
from windlass.dashboard.page_context import PageContext

LOOKED_AT_MAX = 10_000  # jobs, for one page
PAGES_MAX = 40  # ... for a token for some queues: jobs of others that were passed over are not counted
TIME_MAX_S = 1.5  # ... and no longer than this
LINE_MAX = 400


class JobSearchResult(msgspec.Struct, frozen=True):
    jobs: list[Job]
    errors: dict[bytes, str]  # id -> what went wrong last, in a line
    cursor: str  # empty: that was all
    looked_at: int


async def search_jobs(page: PageContext[None], listing: Listing, looked_at_max: int = LOOKED_AT_MAX) -> JobSearchResult:
    """Jobs of queues that are theirs."""
    jobs: list[Job] = []
    errors: dict[bytes, str] = {}
    looked_at, pages, until_s = 0, 0, time.monotonic() + TIME_MAX_S
    while True:
        step = msgspec.structs.replace(listing, most=listing.most - len(jobs))
        batch: Page = await page.service.jobs_within(step, page.principal.queues)
        jobs += batch.jobs
        errors |= {job_id: _error_text(one) for job_id, one in batch.last_attempts.items()}
        looked_at += max(1, batch.looked_at)
        pages += 1
        listing = msgspec.structs.replace(listing, cursor=batch.cursor)
        is_enough = looked_at >= looked_at_max or (bool(page.principal.queues) and pages >= PAGES_MAX)
        if not batch.cursor or len(jobs) >= listing.most or is_enough or time.monotonic() > until_s:
            return JobSearchResult(jobs, errors, batch.cursor, looked_at)


def _error_text(attempt: Attempt) -> str:
    return error_line(attempt.reason, attempt.error).strip().partition("\n")[0][:LINE_MAX]
