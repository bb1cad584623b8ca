"""Routes that read jobs: records, results, explanations, logs, members and pages."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar

from msgspec import UNSET

from windlass.core import errors
from windlass.core.errors import BadInput, Refusal
from windlass.core.explain.reasons import Explanation
from windlass.core.ids import format_id, parse_id
from windlass.core.job import Timeline
from windlass.core.log import Logs
from windlass.core.operations import Listing
from windlass.core.states import State
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import JOB_CONTROLLERS, JOB_READERS, READERS, Answer, Routes
from windlass.wire.jobs import (
    CauseShape,
    EndingShape,
    ListJobsQuery,
    MembersQuery,
    MembersShape,
    NotEndedShape,
    PageShape,
    ResultQuery,
    TimelineShape,
    WantedItem,
    attempt_shape,
    ending_shape,
    job_shape,
    member_shape,
    timeline_shape,
)
from windlass.wire.problems import HttpRefusal
from windlass.wire.shape import Items, Results, to_results

routes = Routes("/api/v1", tag="Looking")

T = TypeVar("T")


class Gone(HttpRefusal):
    """The job has ended and is not kept. For a read this is 410, not a conflict."""

    code = errors.AlreadyEnded.code
    status = 410
    sentence = errors.AlreadyEnded.unkept


ABSENT = (errors.UnknownJob, Gone)


async def read_job(operation: Awaitable[T]) -> T:
    """Run an operation that reads a job. A job that is not kept raises Gone."""
    try:
        return await operation
    except errors.AlreadyEnded as error:
        raise Gone from error


@routes.get("/jobs/{id}", roles=JOB_READERS, response=TimelineShape, refuses=ABSENT)
async def job(context: RequestContext[None, None]) -> TimelineShape:
    """Read a job with its unsuccessful attempts."""
    timeline = await read_job(context.service.job([context.job_id]).one())
    context.check_found(timeline.job.queue)
    return timeline_shape(timeline, context.response_encoding)


@routes.post("/jobs:get", roles=JOB_READERS, body=Items[WantedItem], response=Results[TimelineShape])
async def job_many(context: RequestContext[Items[WantedItem], Any]) -> Results[TimelineShape]:
    """Read up to 1,000 jobs with their unsuccessful attempts, each with its own result."""
    found: Sequence[Timeline | Refusal] = await context.service.job([parse_id(item.id) for item in context.body.items])
    for timeline in found:
        if isinstance(timeline, Timeline):
            context.check_found(timeline.job.queue, f"job {timeline.job.key}")
    return to_results(found, lambda timeline: timeline_shape(timeline, context.response_encoding))


@routes.get(
    "/jobs/{id}/result", roles=JOB_READERS, query=ResultQuery, response=EndingShape,
    other_responses={202: NotEndedShape}, waits=True, refuses=ABSENT,
)  # fmt: skip
async def result(context: RequestContext[None, ResultQuery]) -> Answer | EndingShape:
    """Read the result of a job.

    200: the job has ended. 202: it has not ended within `wait_ms`; repeat the request. A waiting request is answered as
    soon as the job ends."""
    job_id, wait_ms = context.job_id, context.query.wait_ms
    consume = context.query.consume and context.request.head.method == "GET"  # HEAD changes nothing
    if consume:
        context.principal.check(JOB_CONTROLLERS)
    await context.check_jobs([job_id])
    ending = await read_job(
        context.state.wait_or_stop(context.service.result(job_id, wait_ms=wait_ms, consume=consume), None)
    )
    if ending is not None:
        return ending_shape(ending, context.response_encoding)
    state = (await read_job(context.service.job([job_id]).one())).job.state
    if state.is_ended:  # since the first read
        ending = await read_job(context.service.result(job_id, consume=consume))
    if ending is not None:
        return ending_shape(ending, context.response_encoding)
    return Answer(NotEndedShape(state=state.label), 202)  # type: ignore[arg-type]


@routes.get("/jobs/{id}/explain", roles=JOB_READERS, response=Explanation, refuses=ABSENT)
async def explain(context: RequestContext[None, None]) -> Explanation:
    """Explain why a job does not run, which worker runs it, or how it ended.

    `summary` is a text. `reasons` is data, the most decisive reason first; each has a `kind` and a sentence."""
    job_id = context.job_id
    await context.check_jobs([job_id])
    return await read_job(context.service.explain_within(job_id, context.principal.queues))


@routes.get("/jobs/{id}/cause", roles=JOB_READERS, response=CauseShape, refuses=ABSENT)
async def cause(context: RequestContext[None, None]) -> CauseShape:
    """Find the job because of which a job failed or was cancelled.

    A job that waits for other jobs ends when one of them fails or is cancelled. The answer is the first job of such a
    chain, with its unsuccessful attempts."""
    job_id = context.job_id
    await context.check_jobs([job_id])
    await read_job(context.service.queue_of([job_id]).one())
    found = await context.service.find_cause(job_id)
    if found is None:
        return CauseShape(cause=None)
    if not context.principal.may_use(found.job.queue):
        return CauseShape(cause=None, is_hidden=True)
    return CauseShape(cause=timeline_shape(found, context.response_encoding))


@routes.get("/jobs/{id}/logs", roles=JOB_READERS, response=Logs, refuses=ABSENT)
async def logs(context: RequestContext[None, None]) -> Logs:
    """Read the last log lines of a job, of all its attempts."""
    job_id = context.job_id
    await context.check_jobs([job_id])
    return await read_job(context.service.logs(job_id))


@routes.get(
    "/jobs/{id}/members",
    roles=JOB_READERS,
    query=MembersQuery,
    response=MembersShape,
    refuses=(*ABSENT, errors.TooLarge),
)
async def members(context: RequestContext[None, MembersQuery]) -> MembersShape:
    """List the children of a job and the jobs it waits for, by page.

    Members include payloads and results. `state` filters and may be repeated. A token limited to some queues sees the
    members in these queues."""
    job_id, query = context.job_id, context.query
    await context.check_jobs([job_id])
    states = tuple(State[name.upper()] for name in query.state)
    page = await read_job(context.service.list_members(job_id, states, most=query.most, cursor=query.cursor))
    return MembersShape(
        members=[
            member_shape(member, context.response_encoding)
            for member in page.members
            if context.principal.may_use(member.job.queue)
        ],
        cursor=page.cursor,
    )


@routes.get("/jobs", roles=READERS, query=ListJobsQuery, response=PageShape, refuses=(errors.TooLarge,))
async def jobs(context: RequestContext[None, ListJobsQuery]) -> PageShape:
    """List jobs by state, tag or indexed payload field, of one queue or of all, by page; or find jobs by any name.

    The other conditions are filters. A page examines a bounded number of jobs; continue with its cursor. With `alias`,
    the page has all jobs that the name may mean: a unique key may be used in several queues, and a part of an id belong
    to several jobs. A token limited to some queues sees the jobs in these queues."""
    query = context.query
    if query.alias:
        return await _find(context)
    listing = Listing(**{field: getattr(query, field) for field in Listing.__struct_fields__})
    operation = context.service.jobs_within(listing, context.principal.queues)
    if query.queue:
        context.check_queue(query.queue)
    page = await operation
    return PageShape(
        jobs=[job_shape(job, context.response_encoding) for job in page.jobs],
        cursor=page.cursor,
        looked_at=page.looked_at,
        last_attempts={
            format_id(job_id): attempt_shape(attempt, context.response_encoding)
            for job_id, attempt in page.last_attempts.items()
        },
        is_complete=UNSET if page.is_complete else False,
    )


async def _find(context: RequestContext[None, ListJobsQuery]) -> PageShape:
    query = context.query
    if query != ListJobsQuery(alias=query.alias, queue=query.queue):
        raise BadInput("alias names jobs, and can be combined with queue only. Remove the other conditions.")
    operation = context.service.find_within(query.alias, context.principal.queues, queue=query.queue)
    if query.queue:
        context.check_queue(query.queue)
    found = await operation
    return PageShape(
        jobs=[job_shape(job, context.response_encoding) for job in found.jobs],
        cursor="",
        looked_at=found.looked_at or len(found.jobs),
        last_attempts={},
        is_complete=found.is_complete,
    )
