"""Query: copies the jobs that a query can match, and lets SQLite answer from the copy in a child process.

Jobs may change while they are copied, so the copy is not a snapshot of a single instant."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from windlass.core.access.tokens import Principal
from windlass.core.errors import BadInput, Refusal, TooLarge
from windlass.core.job import Job
from windlass.core.operations import Listing
from windlass.core.validation.bounds import PAGE_MAX
from windlass.core.validation.values import check_glob
from windlass.dialects.bedrock import timeouts, times
from windlass.dialects.bedrock.client import BedrockClient
from windlass.dialects.bedrock.jobs import NumberedJobs
from windlass.dialects.bedrock.parameters import Parameters
from windlass.dialects.bedrock.query import sql_parameters, sqlite_query
from windlass.dialects.bedrock.query.child import QueryRequest
from windlass.dialects.bedrock.query.extra_columns import COLUMNS, columns_for
from windlass.dialects.bedrock.query.filter_pushdown import NO_JOBS, PushedFilter, push_filter
from windlass.dialects.bedrock.query.pool import QueryPool
from windlass.dialects.bedrock.query.sqlite_query import QueryLimits
from windlass.dialects.bedrock.queues import check_queues, is_queue_name, read_named_queues
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


class _Copy:
    """Rows of all queues as MessagePack, within the limits of a query."""

    def __init__(self, limits: QueryLimits) -> None:
        self.pages: list[bytes] = []
        self._limits = limits
        self._rows = self._size = 0

    def add(self, rows: list[tuple[Any, ...]]) -> None:
        self.pages.append(_encode_rows(rows))
        self._rows += len(rows)
        self._size += len(self.pages[-1])
        limits = self._limits
        if self._rows > limits.rows or self._size > limits.copy_bytes:
            bounds = f"{limits.rows:,} jobs and {limits.copy_bytes:,} bytes"
            raise CommandRefused(
                *sqlite_query.ABORTED, f"A query may look at {bounds}; add conditions on name or state."
            )


class QueryCommand:
    def __init__(self, jobs: NumberedJobs, query_timeout_s: float) -> None:
        self._jobs = jobs
        self._service = jobs.service
        self._seconds_max = query_timeout_s
        self.pool = QueryPool()

    async def query(self, request: BedrockRequest, client: BedrockClient) -> Reply:
        headers = Parameters.from_request(request)
        named = read_named_queues(headers)
        text = headers.get("query").strip()
        parameters = sql_parameters.read_parameters(request.headers)
        if schema := sqlite_query.schema_query(text):
            text, wanted = schema, NO_JOBS
        else:
            wanted = push_filter(sqlite_query.check_query(text), parameters)
        columns = columns_for(text)
        wanted = _limit_queues(wanted, named, client.principal, are_mentioned="queue" in columns)
        with_headers = headers.get("format").lower() == "json"
        async with self.pool.slot():
            limits = self._limits()
            pages = await self._copy(wanted, columns, client.principal, limits)
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

    async def _copy(
        self, wanted: PushedFilter, columns: Sequence[str], principal: Principal, limits: QueryLimits
    ) -> list[bytes]:
        """Copy the rows as MessagePack, page by page, so that the event loop is never blocked for long."""
        try:
            async with asyncio.timeout(limits.seconds) as copying:
                return await self._pages(wanted, columns, principal, limits)
        except TimeoutError:
            if copying.expired():
                limits.refuse_slow()
            raise

    async def _pages(
        self, wanted: PushedFilter, columns: Sequence[str], principal: Principal, limits: QueryLimits
    ) -> list[bytes]:
        if wanted.numbers is not None and len(wanted.numbers) <= PAGE_MAX:
            found = await self._jobs.by_numbers(wanted.numbers, principal)
            jobs = [job for job in found if wanted.queues is None or job.queue in wanted.queues]
            return [_encode_rows(await self._rows(jobs, columns))]
        copy = _Copy(limits)
        for queue in await self._queues(wanted, principal):
            for state, bedrock_states in LISTED_STATES.items():
                if wanted.states is None or not wanted.states.isdisjoint(bedrock_states):
                    await self._copy_state(copy, queue, state, wanted.name, columns)
        return copy.pages

    async def _queues(self, wanted: PushedFilter, principal: Principal) -> Collection[str]:
        """Return the queues to copy. A query that mentions `queue` without a condition sees all queues of the token."""
        if wanted.queues is not None:
            return sorted(filter(is_queue_name, wanted.queues))
        return [queue for queue in await self._service.queues() if principal.may_use(queue)]

    async def _copy_state(self, copy: _Copy, queue: str, state: str, name: str, columns: Sequence[str]) -> None:
        cursor = ""
        while True:
            jobs, cursor = await self._page(queue, state, name, cursor)
            copy.add(await self._rows(jobs, columns))
            if not cursor:
                return

    async def _page(self, queue: str, state: str, name: str, cursor: str) -> tuple[list[Job], str]:
        try:
            check_glob(name)
        except (BadInput, TooLarge):
            name = ""  # the engine refuses the pattern: SQLite matches it
        page = await self._service.jobs(Listing(queue=queue, state=state, name=name, most=PAGE_MAX, cursor=cursor))
        truncated = [job.id for job in page.jobs if not job.payload_is_whole]
        answers = await self._service.job(truncated) if truncated else []
        whole = {answer.job.id: answer.job for answer in answers if not isinstance(answer, Refusal)}
        return [whole.get(job.id, job) for job in page.jobs if job.payload_is_whole or job.id in whole], page.cursor

    async def _rows(self, jobs: list[Job], columns: Sequence[str]) -> list[tuple[Any, ...]]:
        """Return the jobs as rows, in the order of the columns."""
        parents = {job.parent for job in jobs if job.parent is not None}
        numbers = await self._jobs.numbers([*(job.id for job in jobs), *parents])
        return [_row(job, numbers, columns) for job in jobs if job.id in numbers]


def _limit_queues(
    wanted: PushedFilter, named: tuple[str, ...], principal: Principal, *, are_mentioned: bool
) -> PushedFilter:
    """Add the queues of the headers to the filter. A query that mentions no queue sees the queue `bedrock`.

    Conditions of the SQL name no queue that is refused: jobs of other queues than the token's are not in the table."""
    if are_mentioned and not named:
        known = wanted.queues
        return wanted if known is None else wanted._replace(queues=frozenset(filter(principal.may_use, known)))
    queues = named or (QUEUE,)
    check_queues(principal, queues)
    return wanted._replace(queues=frozenset(queues) if wanted.queues is None else wanted.queues & set(queues))


def _row(job: Job, numbers: dict[bytes, int], columns: Sequence[str]) -> tuple[Any, ...]:
    fields = fields_of(job, numbers[job.id])
    parent = 0 if job.parent is None else numbers.get(job.parent, 0)
    fields |= {
        "data": bytes(fields["data"]).decode(),
        "lastRun": fields["lastRun"] or None,
        "parentJobID": parent,
    }
    if columns != COLUMNS:
        fields |= _extra_fields(job)
    return tuple(fields[column] for column in columns)


def _extra_fields(job: Job) -> dict[str, Any]:
    """Return the values of EXTRA_COLUMNS."""
    return {
        "queue": job.queue,
        "timeout": timeouts.timeout_of(job),
        "expires": times.format_last_run(timeouts.expires_at_ms(job)) or None,
    }
