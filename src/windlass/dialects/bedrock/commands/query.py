"""Query: copies the jobs that a query can match, and lets SQLite answer from the copy in a child process.

Jobs may change while they are copied, so the copy is not a snapshot of a single instant."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from windlass.core.errors import BadInput, Refusal, TooLarge
from windlass.core.job import Job
from windlass.core.operations import Listing
from windlass.core.validation.bounds import PAGE_MAX
from windlass.core.validation.values import check_glob
from windlass.dialects.bedrock.jobs import NumberedJobs
from windlass.dialects.bedrock.parameters import Parameters
from windlass.dialects.bedrock.query import sql_parameters, sqlite_query
from windlass.dialects.bedrock.query.child import QueryRequest
from windlass.dialects.bedrock.query.filter_pushdown import NO_JOBS, PushedFilter, push_filter
from windlass.dialects.bedrock.query.pool import QueryPool
from windlass.dialects.bedrock.query.sqlite_query import QueryLimits
from windlass.dialects.bedrock.record import fields_of
from windlass.dialects.bedrock.refusals import CommandRefused
from windlass.dialects.bedrock.verbs import QUEUE
from windlass.dialects.bedrock.wire import BedrockRequest, Reply

# In the order of a job's life, so that a job that moves on is listed twice rather than missed.
LISTED_STATES = {
    "scheduled": {"QUEUED"},
    "queued": {"QUEUED"},
    "waiting": {"PAUSED"},
    "running": {"RUNNING", "RUNQUEUED"},
    "finished": {"FINISHED"},
    "failed": {"FAILED"},
    "cancelled": {"CANCELLED"},
}
_encode_rows = msgspec.msgpack.Encoder().encode


class QueryCommand:
    def __init__(self, jobs: NumberedJobs, query_timeout_s: float) -> None:
        self._jobs = jobs
        self._service = jobs.service
        self._seconds_max = query_timeout_s
        self.pool = QueryPool()

    async def query(self, request: BedrockRequest) -> Reply:
        headers = Parameters.from_request(request)
        text = headers.get("query").strip()
        parameters = sql_parameters.read_parameters(request.headers)
        if schema := sqlite_query.schema_query(text):
            text, wanted = schema, NO_JOBS
        else:
            wanted = push_filter(sqlite_query.check_query(text), parameters)
        with_headers = headers.get("format").lower() == "json"
        async with self.pool.slot():
            limits = self._limits()
            pages = await self._copy(wanted, limits)
            answer = await self.pool.run(QueryRequest(text, pages, parameters, limits, with_headers))
        reply_headers = (("error", answer.error),) if answer.error else ()
        return Reply(answer.status, answer.reason, answer.body, reply_headers)

    def _limits(self) -> QueryLimits:
        return QueryLimits(
            seconds=self._seconds_max or sqlite_query.SECONDS_MAX,
            rows=sqlite_query.ROWS_MAX,
            answer_bytes=sqlite_query.ANSWER_BYTES_MAX,
            copy_bytes=sqlite_query.COPY_BYTES_MAX,
        )

    async def _copy(self, wanted: PushedFilter, limits: QueryLimits) -> list[bytes]:
        """Copy the rows as MessagePack, page by page, so that the event loop is never blocked for long."""
        try:
            async with asyncio.timeout(limits.seconds) as copying:
                return await self._pages(wanted, limits)
        except TimeoutError:
            if copying.expired():
                limits.refuse_slow()
            raise

    async def _pages(self, wanted: PushedFilter, limits: QueryLimits) -> list[bytes]:
        if wanted.numbers is not None and len(wanted.numbers) <= PAGE_MAX:
            return [_encode_rows(await self._rows(await self._jobs.by_numbers(wanted.numbers)))]
        pages: list[bytes] = []
        count = size = 0
        for state, bedrock_states in LISTED_STATES.items():
            if wanted.states is not None and wanted.states.isdisjoint(bedrock_states):
                continue
            cursor = ""
            while True:
                jobs, cursor = await self._page(state, wanted.name, cursor)
                rows = await self._rows(jobs)
                pages.append(_encode_rows(rows))
                count += len(rows)
                size += len(pages[-1])
                if count > limits.rows or size > limits.copy_bytes:
                    bounds = f"{limits.rows:,} jobs and {limits.copy_bytes:,} bytes"
                    raise CommandRefused(
                        *sqlite_query.ABORTED, f"A query may look at {bounds}; add conditions on name or state."
                    )
                if not cursor:
                    break
        return pages

    async def _page(self, state: str, name: str, cursor: str) -> tuple[list[Job], str]:
        try:
            check_glob(name)
        except (BadInput, TooLarge):
            name = ""  # the engine refuses the pattern: SQLite matches it
        page = await self._service.jobs(Listing(queue=QUEUE, state=state, name=name, most=PAGE_MAX, cursor=cursor))
        truncated = [job.id for job in page.jobs if not job.payload_is_whole]
        answers = await self._service.job(truncated) if truncated else []
        whole = {answer.job.id: answer.job for answer in answers if not isinstance(answer, Refusal)}
        return [whole.get(job.id, job) for job in page.jobs if job.payload_is_whole or job.id in whole], page.cursor

    async def _rows(self, jobs: list[Job]) -> list[tuple[Any, ...]]:
        """Return the jobs as rows, in the order of the columns."""
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
    return tuple(fields[column] for column in sqlite_query.COLUMNS)
