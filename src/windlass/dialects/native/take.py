"""Routes that take jobs, alone or together with reports."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from windlass.core import errors
from windlass.core.errors import Refusal
from windlass.core.ids import parse_id
from windlass.core.operations import LeaseRef, Take, Taken
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import WORKERS, Routes
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

from .reports import build_failures

routes = Routes("/api/v1", tag="Working")

_REFUSES_TAKE = (
    errors.NamesNeedLanes, errors.NoExactPriority, errors.CrossPartition, errors.PartitionStopped, errors.UnknownWorker,
)  # fmt: skip
NOTHING_TAKEN = Taken([], None)


@routes.post("/take", roles=WORKERS, body=TakeShape, response=TakenShape, refuses=_REFUSES_TAKE, waits=True)
async def take(context: RequestContext[TakeShape, None]) -> TakenShape:
    """Take jobs, with a lease on each.

    With `wait_ms` the answer comes as soon as there is a job, or empty after that time. A client that disconnects while
    it waits takes no job. Report or extend before the deadline: after it, other workers can take the job."""
    request = context.body.request(wait_ms=context.body.wait_ms)
    await _check_take(context, request)
    return await _hand_over(context, await context.state.wait_or_stop(context.service.take(request), NOTHING_TAKEN))


async def _check_take(context: RequestContext[Any, Any], request: Take) -> None:
    for queue in request.queues:
        context.check_queue(queue)
    if request.worker:
        await context.check_worker(request.worker)


async def _hand_over(context: RequestContext[Any, Any], taken: Taken) -> TakenShape:
    """Return the taken jobs. If the client has disconnected, release them instead."""
    if taken.jobs and context.request.client.is_gone:
        await context.service.release([LeaseRef(job.id, job.lease_token) for job in taken.jobs])
        taken = NOTHING_TAKEN
    return TakenShape(
        jobs=[job_shape(job, context.response_encoding) for job in taken.jobs], next_due_at_ms=taken.next_due_at_ms
    )


@routes.post(
    "/exchange", roles=WORKERS, body=FinishAndTakeShape, response=FinishedAndTakenShape,
    refuses=(*_REFUSES_TAKE, errors.TooLarge), operation="exchange", waits=True,
)  # fmt: skip
async def finish_and_take(context: RequestContext[FinishAndTakeShape, None]) -> FinishedAndTakenShape:
    """Report outcomes and take the next jobs.

    The reports come first and count even if the take fails. With `wait_ms` the answer to the reports also waits for a
    job, so use it only if nothing depends on that answer."""
    request = context.body.take.request(wait_ms=0)
    finishes = [(parse_id(item.id), item) for item in context.body.finishes]
    failures = [(parse_id(item.id), item) for item in context.body.failures]
    # Concurrently: for a token limited to some queues, both read from the engine.
    await asyncio.gather(
        _check_take(context, request), context.check_jobs([job_id for job_id, _ in (*finishes, *failures)])
    )
    done = await context.service.finish_and_take(
        [item.finish(job_id, context.body_encoding) for job_id, item in finishes],
        await build_failures(context, failures),
        request,
    )
    taken = done.taken
    if not taken.jobs and context.body.take.wait_ms:
        waiting = context.service.take(context.body.take.request(wait_ms=context.body.take.wait_ms))
        taken = await context.state.wait_or_stop(waiting, NOTHING_TAKEN)
    response = await _hand_over(context, taken)
    return FinishedAndTakenShape(
        finished=to_results(_raise_engine_errors(done.finished), finished_shape).results,
        failed=to_results(_raise_engine_errors(done.failed), failed_shape).results,
        jobs=response.jobs,
        next_due_at_ms=response.next_due_at_ms,
    )


def _raise_engine_errors(answers: Sequence[Any]) -> list[Any]:
    """Raise the first error that is not a refusal: an engine error concerns the whole request."""
    for answer in answers:
        if isinstance(answer, Exception) and not isinstance(answer, Refusal):
            raise answer
    return list(answers)
