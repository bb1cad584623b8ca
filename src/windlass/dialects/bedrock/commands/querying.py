"""Query: the jobs that a query can be about are copied, and SQLite answers from the copy. Jobs may move meanwhile: the
copy is of a little while, not of one instant."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from ....core.errors import BadInput, Refusal, TooLarge
from ....core.job import Job
from ....core.requests import Listing
from ....core.validation import PAGE_MAX, glob
from .. import query
from ..jobs import Jobs
from ..narrowing import Narrowed, narrowed
from ..parameters import Parameters
from ..record import fields_of
from ..refusing import Refused
from ..verbs import QUEUE
from ..wire import Reply, Request

# In the order of a job's life, so that one that moves on meanwhile is met again rather than missed.
LISTED = {
    "scheduled": {"QUEUED"},
    "queued": {"QUEUED"},
    "waiting": {"PAUSED"},
    "running": {"RUNNING", "RUNQUEUED"},
    "finished": {"FINISHED"},
    "failed": {"FAILED"},
    "cancelled": {"CANCELLED"},
}
AT_ONCE = 2  # queries; others wait for their turn


class Querying:
    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._service = jobs.service
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def query(self, request: Request) -> Reply:
        given = Parameters.of(request)
        text = query.checked(given.get("query").strip())
        async with self._turns:
            rows = await self._copy(narrowed(text))
            try:
                found = await asyncio.to_thread(query.run, text, rows)
            except query.BadQuery as bad:
                return Reply(402, "Bad query", headers=(("error", str(bad)),))
        return Reply(200, "OK", query.write(found, with_headers=given.get("format").lower() == "json"))

    async def _copy(self, wanted: Narrowed) -> list[tuple[Any, ...]]:
        give_up_at_s = time.monotonic() + query.SECONDS_MAX
        if wanted.numbers is not None and len(wanted.numbers) <= PAGE_MAX:
            return await self._rows(await self._jobs.by_numbers(wanted.numbers))
        rows: list[tuple[Any, ...]] = []
        size = 0
        for state, shown in LISTED.items():
            if wanted.states is not None and wanted.states.isdisjoint(shown):
                continue
            cursor = ""
            while True:
                jobs, cursor = await self._page(state, wanted.name, cursor)
                rows += await self._rows(jobs)
                size += sum(len(job.payload.data) for job in jobs)
                if len(rows) > query.ROWS_MAX or size > query.COPY_BYTES_MAX or time.monotonic() > give_up_at_s:
                    raise Refused(*query.ABORTED)
                if not cursor:
                    break
        return rows

    async def _page(self, state: str, name: str, cursor: str) -> tuple[list[Job], str]:
        try:
            glob(name)
        except (BadInput, TooLarge):
            name = ""  # a pattern beyond the engine's bounds is left to SQLite
        page = await self._service.jobs(Listing(queue=QUEUE, state=state, name=name, most=PAGE_MAX, cursor=cursor))
        cut = [job.id for job in page.jobs if not job.payload_is_whole]
        answers = await self._service.job(cut) if cut else []
        whole = {one.job.id: one.job for one in answers if not isinstance(one, Refusal)}
        return [whole.get(job.id, job) for job in page.jobs if job.payload_is_whole or job.id in whole], page.cursor

    async def _rows(self, jobs: list[Job]) -> list[tuple[Any, ...]]:
        """In the order of the columns."""
        parents = {job.parent for job in jobs if job.parent is not None}
        numbers = await self._jobs.numbers([*(job.id for job in jobs), *parents])
        return [_row(job, numbers) for job in jobs if job.id in numbers]


def _row(job: Job, numbers: dict[bytes, int]) -> tuple[Any, ...]:
    fields = fields_of(job, numbers[job.id])
    parent = 0 if job.parent is None else numbers.get(job.parent, 0)
    fields |= {
        "data": bytes(fields["data"]).decode(),
        "lastRun": fields["lastRun"] or None,
        "parentJobID": parent,
    }
    return tuple(fields[column] for column in query.COLUMNS)
