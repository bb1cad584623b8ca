"""Jobs are taken over HTTP: a lease like any other. What their holders say is in reporting.py; both at once is here."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from windlass.core import errors
from windlass.core.errors import Refusal
from windlass.core.ids import parse_id
from windlass.core.operations import LeaseRef, Take, Taken
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import WORKS, Routes
from windlass.wire.jobs import job_shape
from windlass.wire.leases import (
    FinishAndTakeShape,
    FinishedAndTakenShape,
    TakenShape,
    TakeShape,
    failed_shape,
    finished_shape,
)
from windlass.wire.shape import to_results

from .reports import failures_of, finish_of

routes = Routes("/api/v1", tag="Working")


_REFUSES_TAKE = (
    errors.NamesNeedLanes, errors.NoExactPriority, errors.CrossPartition, errors.PartitionStopped, errors.UnknownWorker,
)  # fmt: skip
NOTHING = Taken([], None)


@routes.post("/take", roles=WORKS, body=TakeShape, response=TakenShape, refuses=_REFUSES_TAKE, waits=True)
async def take(context: RequestContext[TakeShape, None]) -> TakenShape:
    """Take jobs, with a lease.

    With `wait_ms` the answer comes as soon as there is a job, or empty after that time. A client that goes away while
    it waits consumes no job. Report before the deadline, or extend: what is not heard of again is given to others."""
    request = context.body.request(wait_ms=context.body.wait_ms)
    await _may_take(context, request)
    return await _handed_over(context, await context.state.wait_or_stop(context.service.take(request), NOTHING))


async def _may_take(context: RequestContext[Any, Any], wanted: Take) -> None:
    for queue in wanted.queues:
        context.check_queue(queue)
    if wanted.worker:
        await context.check_worker(wanted.worker)


async def _handed_over(context: RequestContext[Any, Any], taken: Taken) -> TakenShape:
    if taken.jobs and context.request.client.is_gone:
        await context.service.release([LeaseRef(job.id, job.lease_token) for job in taken.jobs])
        taken = NOTHING
    return TakenShape(
        jobs=[job_shape(job, context.response_encoding) for job in taken.jobs], next_due_at_ms=taken.next_due_at_ms
    )


# Both at once


@routes.post(
    "/exchange", roles=WORKS, body=FinishAndTakeShape, response=FinishedAndTakenShape, refuses=(*_REFUSES_TAKE, errors.TooLarge),
    waits=True,
)  # fmt: skip
async def exchange(context: RequestContext[FinishAndTakeShape, None]) -> FinishedAndTakenShape:
    """Report outcomes and take the next jobs.

    The reports are done first, and count whatever becomes of the taking; with `wait_ms` the answer comes when there is
    a job, so give one only when nobody waits for what was reported."""
    request = context.body.take.request(wait_ms=0)
    finishes = [(parse_id(one.id), one) for one in context.body.finishes]
    failures = [(parse_id(one.id), one) for one in context.body.failures]
    # Side by side: for a token that is for some queues, both read from the engine.
    await asyncio.gather(
        _may_take(context, request), context.check_jobs([job_id for job_id, _ in (*finishes, *failures)])
    )
    done = await context.service.finish_and_take(
        [finish_of(context, *pair) for pair in finishes], await failures_of(context, failures), request
    )
    taken = done.taken
    if not taken.jobs and context.body.take.wait_ms:
        waiting = context.service.take(context.body.take.request(wait_ms=context.body.take.wait_ms))
        taken = await context.state.wait_or_stop(waiting, NOTHING)
    handed = await _handed_over(context, taken)
    return FinishedAndTakenShape(
        finished=to_results(_refusals(done.finished), finished_shape).results,
        failed=to_results(_refusals(done.failed), failed_shape).results,
        jobs=handed.jobs,
        next_due_at_ms=handed.next_due_at_ms,
    )


def _refusals(answers: Sequence[Any]) -> list[Any]:
    """What is no refusal is trouble with the engine, which concerns the whole request."""
    for one in answers:
        if isinstance(one, Exception) and not isinstance(one, Refusal):
            raise one
    return list(answers)
