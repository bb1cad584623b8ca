"""Read-only routes for a web page: jobs, workers and counts, in JSON or MessagePack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from windlass.core import errors
from windlass.core.errors import BadInput
from windlass.core.ids import format_id
from windlass.core.job import Blob, Job, Timeline
from windlass.core.operations import Listing, Worker
from windlass.core.text.codecs import as_json, as_msgpack
from windlass.core.validation.bounds import CURSOR_MAX, NAME_MAX, PAGE_MAX, UINT32_MAX
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import READERS, Routes
from windlass.wire.encoding import Encoding
from windlass.wire.values import Value

from .constraints import ConstraintShape, constraint_shapes
from .protocol import PREFIX, QUEUE, JobId, No, QueueName, format_error_as_accepted
from .status import (
    Reason,
    Status,
    describe_failure,
    is_shown,
    keeps_result,
    last_failure,
    retry_count_of,
    status_of,
    worker_of,
)

routes = Routes(f"{PREFIX}/ui", tag="Web page", error_formatter=format_error_as_accepted, error_body=No)

JOBS_PAGE_MAX = 200
# The engine's lists for each status. `queued` and `retrying` share lists: a job that was tried is retrying.
_PENDING_LISTS = ("scheduled", "queued", "waiting")
_LISTS: dict[str, tuple[str, ...]] = {
    "": ("running", *_PENDING_LISTS, "failed", "finished"),
    "queued": _PENDING_LISTS,
    "retrying": _PENDING_LISTS,
    "running": ("running",),
    "error": ("failed",),
    "done": ("finished",),
}


class QueueQuery(msgspec.Struct, frozen=True, kw_only=True):
    queue: QueueName = QUEUE


class JobsPageQuery(QueueQuery, frozen=True, kw_only=True):
    status: Status | None = None
    name: Annotated[str, Meta(max_length=NAME_MAX, description="A pattern with * and ?.")] = ""
    most: Annotated[int, Meta(ge=1, le=JOBS_PAGE_MAX, description="Size of the page.")] = 50
    cursor: Annotated[
        str, Meta(max_length=CURSOR_MAX, description="Cursor of the page before. Empty: the first page.")
    ] = ""


class ListedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job in a list. `argument` is present if it is short; `reason` and `message` if the job has failed."""

    id: JobId
    name: str
    status: Status
    priority: int
    retry_count: int
    max_retry: Annotated[int | None, Meta(description="nil: no limit.")]
    keep_result: bool
    timeout: Annotated[float | None, Meta(description="Seconds.")]
    enqueued_at_ms: int
    started_at_ms: int | None
    finished_at_ms: int | None
    argument: Value | UnsetType = UNSET
    worker_id: str | UnsetType = UNSET
    reason: Reason | UnsetType = UNSET
    message: str | UnsetType = UNSET


class JobsPage(msgspec.Struct, frozen=True, kw_only=True):
    """`cursor` is empty on the last page. A page may be short or empty before the last page."""

    jobs: list[ListedJob]
    cursor: str


@routes.get(
    "/jobs", operation="ui_jobs", roles=READERS, query=JobsPageQuery, response=JobsPage, is_listed=False,
    refuses=(errors.TooLarge, errors.EngineError),
)  # fmt: skip
async def ui_jobs(context: RequestContext[None, JobsPageQuery]) -> JobsPage:
    """List jobs by status and name, page by page."""
    query = context.query
    context.check_queue(query.queue)
    lists = _LISTS[query.status or ""]
    index, inner = _parse_cursor(query.cursor, lists)
    page = await context.service.jobs(
        Listing(queue=query.queue, state=lists[index], name=query.name, most=query.most, cursor=inner)
    )
    wanted = [job for job in page.jobs if is_shown(job) and query.status in (None, status_of(job))]
    next_list = f"{lists[index + 1]}:" if index + 1 < len(lists) else ""
    return JobsPage(
        jobs=await _list_jobs(context, wanted), cursor=f"{lists[index]}:{page.cursor}" if page.cursor else next_list
    )


ListPosition: TypeAlias = tuple[int, str]


def _parse_cursor(cursor: str, lists: Sequence[str]) -> ListPosition:
    """Return the index of an engine list and the cursor in that list. Lists are read one after the other."""
    if not cursor:
        return 0, ""
    name, _, inner = cursor.partition(":")
    if name not in lists:
        raise BadInput("The cursor does not belong to this list; start again without it.")
    return lists.index(name), inner


async def _list_jobs(context: RequestContext[Any, Any], jobs: Sequence[Job]) -> list[ListedJob]:
    """Describe the jobs. The attempts of those that were tried are read too."""
    tried = [job.id for job in jobs if job.attempt]
    known = dict(zip(tried, await context.service.job(tried), strict=True)) if tried else {}
    timelines = [(job, known.get(job.id, Timeline(job, []))) for job in jobs]
    return [_job_row(job, found, context.response_encoding) for job, found in timelines if isinstance(found, Timeline)]


def _job_row(job: Job, timeline: Timeline, encoding: Encoding) -> ListedJob:
    failure, worker = last_failure(timeline), worker_of(timeline)
    details = None if failure is None else describe_failure(failure)
    return ListedJob(
        id=job.key,
        name=job.name,
        status=status_of(timeline.job),
        priority=job.priority,
        retry_count=retry_count_of(job),
        max_retry=job.retry.tries - 1 if job.retry.tries else None,
        keep_result=keeps_result(job),
        timeout=job.timeout_ms / 1000 if job.timeout_ms else None,
        enqueued_at_ms=job.created_at_ms,
        started_at_ms=job.started_at_ms,
        finished_at_ms=job.ended_at_ms,
        argument=_argument(job.payload, encoding) if job.payload_is_whole else UNSET,
        worker_id=UNSET if worker is None else format_id(worker),
        reason=UNSET if details is None else details.reason,
        message=UNSET if details is None else details.message,
    )


def _argument(payload: Blob, encoding: Encoding) -> Any:
    value = as_msgpack(payload) if encoding else as_json(payload)
    return UNSET if value is None else value


class WorkersPageQuery(QueueQuery, frozen=True, kw_only=True):
    start: Annotated[int, Meta(ge=0, le=UINT32_MAX, description="Number of workers to skip.")] = 0
    most: Annotated[int, Meta(ge=1, le=JOBS_PAGE_MAX)] = 100


class ListedWorker(msgspec.Struct, frozen=True, kw_only=True):
    worker_id: str
    name: str
    max_jobs: int
    url: Annotated[str | None, Meta(description="nil: jobs are not pushed to this worker.")]
    registered_at_ms: int
    running_count: int
    running: Annotated[list[JobId], Meta(description="If there are many, the jobs that it has held longest.")]


class WorkersPage(msgspec.Struct, frozen=True, kw_only=True):
    """`next_start` is nil on the last page. A page may be short or empty before the last page."""

    workers: list[ListedWorker]
    next_start: int | None


def _worker_row(worker: Worker) -> ListedWorker:
    return ListedWorker(
        worker_id=format_id(worker.id),
        name=worker.info.name,
        max_jobs=worker.info.slots,
        url=worker.info.url or None,
        registered_at_ms=worker.started_at_ms,
        running_count=worker.running_count,
        running=[format_id(job.id) for job in worker.running],
    )


@routes.get(
    "/workers", operation="ui_workers", roles=READERS, query=WorkersPageQuery, response=WorkersPage, is_listed=False,
    refuses=(errors.EngineError,),
)  # fmt: skip
async def ui_workers(context: RequestContext[None, WorkersPageQuery]) -> WorkersPage:
    """List the workers of the queue, of any dialect, with their running jobs."""
    query = context.query
    context.check_queue(query.queue)
    start, most = query.start, query.most
    page = await context.service.workers(start=start, most=most)
    ours = [worker for worker in page if query.queue in worker.info.queues]
    return WorkersPage(
        workers=[
            _worker_row(worker) for worker in await context.service.workers_within(ours, context.principal.queues)
        ],
        next_start=start + most if len(page) == most and start + most <= UINT32_MAX else None,
    )


class CountsShape(msgspec.Struct, frozen=True, kw_only=True):
    """Number of jobs by status. `retrying` counts jobs in the pause before a retry; after it they count as queued."""

    queued: int
    retrying: int
    running: int
    error: int
    done: int


class WorkersCount(msgspec.Struct, frozen=True, kw_only=True):
    count: int
    max_jobs: int
    running: int


class StatsShape(msgspec.Struct, frozen=True, kw_only=True):
    jobs: CountsShape
    workers: WorkersCount
    constraints: list[ConstraintShape]


@routes.get(
    "/stats", operation="ui_stats", roles=READERS, query=QueueQuery, response=StatsShape, is_listed=False,
    refuses=(errors.EngineError,),
)  # fmt: skip
async def ui_stats(context: RequestContext[None, QueueQuery]) -> StatsShape:
    """Count jobs and workers of the queue, and show the use of each constraint."""
    queue = context.query.queue
    context.check_queue(queue)
    [stats] = await context.service.stats([queue])
    workers = [worker async for worker in _all_workers(context, queue)]
    return StatsShape(
        jobs=CountsShape(
            queued=stats.queued + stats.waiting,
            retrying=stats.scheduled,
            running=stats.running + stats.suspended,
            error=stats.failed,
            done=stats.finished,
        ),
        workers=WorkersCount(
            count=len(workers),
            max_jobs=sum(worker.info.slots for worker in workers),
            running=sum(worker.running_count for worker in workers),
        ),
        constraints=constraint_shapes(await context.service.limits(), context.principal.may_use),
    )


async def _all_workers(context: RequestContext[Any, Any], queue: str) -> Any:
    start = 0
    while page := await context.service.workers(start=start, most=PAGE_MAX):
        ours = [worker for worker in page if queue in worker.info.queues]
        for worker in await context.service.workers_within(ours, context.principal.queues):
            yield worker
        start += len(page)
