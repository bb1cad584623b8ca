"""Jobs are looked at: one by its id, how it ended, why it does not run, what it said, its members; or pages of them."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

from windlass.core import errors
from windlass.core.explain.reasons import Explanation
from windlass.core.ids import format_id
from windlass.core.log import Logs
from windlass.core.operations import Listing
from windlass.core.states import State
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import KNOWS, READS, STEERS, Answer, Routes
from windlass.wire.jobs import (
    EndingShape,
    JobsQuery,
    MembersQuery,
    MembersShape,
    NotEndedShape,
    PageShape,
    ResultQuery,
    TimelineShape,
    attempt_shape,
    ending_shape,
    job_shape,
    member_shape,
    timeline_shape,
)
from windlass.wire.problems import HttpRefusal

routes = Routes("/api/v1", tag="Looking")

T = TypeVar("T")


class Gone(HttpRefusal):
    """To somebody who only looks, an end that nothing is kept of is no conflict."""

    code = errors.AlreadyEnded.code
    status = 410
    sentence = errors.AlreadyEnded.unkept


ABSENT = (errors.UnknownJob, Gone)


async def looked_at(question: Awaitable[T]) -> T:
    try:
        return await question
    except errors.AlreadyEnded as error:
        raise Gone from error


@routes.get("/jobs/{id}", roles=KNOWS, response=TimelineShape, refuses=ABSENT)
async def job(context: RequestContext[None, None]) -> TimelineShape:
    """A job with the attempts that ended badly."""
    timeline = await looked_at(context.service.job([context.job_id]).one())
    context.check_found(timeline.job.queue)
    return timeline_shape(timeline, context.response_encoding)


# How it ended


@routes.get(
    "/jobs/{id}/result", roles=KNOWS, query=ResultQuery, response=EndingShape, other_responses={202: NotEndedShape}, waits=True,
    refuses=ABSENT,
)  # fmt: skip
async def result(context: RequestContext[None, ResultQuery]) -> Answer | EndingShape:
    """How a job ended.

    200 when it has, 202 when it has not within `wait_ms`: then ask again. Nothing polls: a waiting request is answered
    the moment the job ends."""
    job_id, wait_ms = context.job_id, context.query.wait_ms
    consume = context.query.consume and context.request.head.method == "GET"  # HEAD changes nothing
    if consume:
        context.principal.check(STEERS)
    await context.check_jobs([job_id])
    ending = await looked_at(
        context.state.wait_or_stop(context.service.result(job_id, wait_ms=wait_ms, consume=consume), None)
    )
    if ending is not None:
        return ending_shape(ending, context.response_encoding)
    state = (await looked_at(context.service.job([job_id]).one())).job.state
    if state.is_ended:  # in this very moment
        ending = await looked_at(context.service.result(job_id, consume=consume))
    if ending is not None:
        return ending_shape(ending, context.response_encoding)
    return Answer(NotEndedShape(state=state.label), 202)  # type: ignore[arg-type]


# What is known about it


@routes.get("/jobs/{id}/explain", roles=KNOWS, response=Explanation, refuses=ABSENT)
async def explain(context: RequestContext[None, None]) -> Explanation:
    """Why a job does not run, who has it, or how it ended.

    `summary` says it in words; `reasons` as data, the most decisive first, each with a `kind` and a sentence."""
    job_id = context.job_id
    await context.check_jobs([job_id])
    return await looked_at(context.service.explain_within(job_id, context.principal.queues))


@routes.get("/jobs/{id}/logs", roles=KNOWS, response=Logs, refuses=ABSENT)
async def logs(context: RequestContext[None, None]) -> Logs:
    """The last lines that running code has left with a job, of all its attempts."""
    job_id = context.job_id
    await context.check_jobs([job_id])
    return await looked_at(context.service.logs(job_id))


@routes.get(
    "/jobs/{id}/members", roles=KNOWS, query=MembersQuery, response=MembersShape, refuses=(*ABSENT, errors.TooLarge)
)
async def members(context: RequestContext[None, MembersQuery]) -> MembersShape:
    """One page of a job's children and of the jobs it waits for.

    With payloads and outcomes; by `state` (may be given several times) if wanted. A token for some queues sees the
    members in these."""
    job_id, query = context.job_id, context.query
    await context.check_jobs([job_id])
    states = tuple(State[name.upper()] for name in query.state)
    page = await looked_at(context.service.list_members(job_id, states, most=query.most, cursor=query.cursor))
    return MembersShape(
        members=[
            member_shape(one, context.response_encoding)
            for one in page.members
            if context.principal.may_use(one.job.queue)
        ],
        cursor=page.cursor,
    )


# Pages of jobs


@routes.get("/jobs", roles=READS, query=JobsQuery, response=PageShape, refuses=(errors.TooLarge,))
async def jobs(context: RequestContext[None, JobsQuery]) -> PageShape:
    """One page of jobs, by state, of one queue or of all, or by tag.

    The other conditions narrow it further. A page looks at a bounded number of jobs: go on with its cursor. A
    token for some queues sees the jobs in these."""
    query = context.query
    listing = Listing(**{field: getattr(query, field) for field in query.__struct_fields__})
    question = context.service.jobs_within(listing, context.principal.queues)
    if query.queue:
        context.check_queue(query.queue)
    page = await question
    said = page.last_attempts
    return PageShape(
        jobs=[job_shape(one, context.response_encoding) for one in page.jobs],
        cursor=page.cursor,
        looked_at=page.looked_at,
        last_attempts={
            format_id(job_id): attempt_shape(one, context.response_encoding) for job_id, one in said.items()
        },
    )
