"""Routes of durable steps: read them, store one, suspend a job, receive a signal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windlass.core import errors
from windlass.core.errors import Refusal
from windlass.core.ids import parse_id
from windlass.dialects.native.jobs import ABSENT, read_job
from windlass.dialects.native.verbs import verb
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import JOB_READERS, WORKERS, Routes
from windlass.wire.durable.steps import (
    DurableStateShape,
    OpenWaitsShape,
    ReceivedSignalShape,
    ReceiveSignalItem,
    ReceiveSignalShape,
    StoreStepItem,
    StoreStepShape,
    SuspendedShape,
    SuspendItem,
    SuspendShape,
    durable_state_shape,
    open_waits_shape,
    step_shape,
)
from windlass.wire.jobs import WantedItem
from windlass.wire.leases import RECORDED, RecordedShape
from windlass.wire.shape import Items, Results, to_results

routes = Routes("/api/v1", tag="Working")

_NO_LEASE = (errors.UnknownJob, errors.StaleLease, errors.AlreadyEnded, errors.WrongState, errors.TooLarge)


@routes.get("/jobs/{id}/steps", roles=JOB_READERS, response=DurableStateShape, refuses=ABSENT)
async def steps(context: RequestContext[None, None]) -> DurableStateShape:
    """Read the stored steps of a job, its waits and its unread signals.

    A job without `is_durable` has none of them."""
    job_id = context.job_id
    await context.check_jobs([job_id])
    state = await read_job(context.service.durable_states([job_id]).one())
    return durable_state_shape(state, context.response_encoding)


@routes.post("/jobs:get-steps", roles=JOB_READERS, body=Items[WantedItem], response=Results[DurableStateShape])
async def steps_many(context: RequestContext[Items[WantedItem], Any]) -> Results[DurableStateShape]:
    """Read the stored steps, waits and unread signals of up to 1,000 jobs, each with its own result."""
    ids = [parse_id(item.id) for item in context.body.items]
    await context.check_jobs(ids)
    found = await context.service.durable_states(ids)
    return to_results(found, lambda state: durable_state_shape(state, context.response_encoding))


@routes.post("/jobs:get-waits", roles=JOB_READERS, body=Items[WantedItem], response=Results[OpenWaitsShape])
async def waits_many(context: RequestContext[Items[WantedItem], Any]) -> Results[OpenWaitsShape]:
    """Read only the waits of up to 1,000 suspended jobs, each with its own result.

    For lists: the other steps of a job may hold megabytes."""
    ids = [parse_id(item.id) for item in context.body.items]
    await context.check_jobs(ids)
    found = await context.service.open_waits(ids)
    return to_results(found, lambda waits: open_waits_shape(waits, context.response_encoding))


@verb(
    routes, "steps", operation="store_step", roles=WORKERS, body=StoreStepShape, item=StoreStepItem,
    response=RecordedShape, refuses=(*_NO_LEASE, errors.StepsFull),
)  # fmt: skip
async def store_step(context: RequestContext[Any, Any], pairs: Sequence[tuple[bytes, StoreStepShape]]) -> list[Any]:
    """Store the outcome of a step, and extend the lease.

    The first outcome of a name stays, so a repeated request has no effect. A cursor may be stored again while its
    status is `waiting`."""
    requests = [shape.store_step(job_id, context.body_encoding) for job_id, shape in pairs]
    answers = await context.service.store_steps(requests)
    return [answer if isinstance(answer, Refusal) else RECORDED for answer in answers]


@verb(
    routes, "suspend", roles=WORKERS, body=SuspendShape, item=SuspendItem, response=SuspendedShape,
    refuses=(*_NO_LEASE, errors.StepsFull, errors.TooManySuspensions),
)  # fmt: skip
async def suspend(context: RequestContext[Any, Any], pairs: Sequence[tuple[bytes, SuspendShape]]) -> list[Any]:
    """Suspend a job until one of its conditions is met. The lease ends, and the attempt does not count.

    `queued`: a condition is already met, so the job can be taken again. A worker that takes a suspended job runs its
    code from the beginning and does not repeat stored steps."""
    requests = [shape.suspend(job_id, context.body_encoding) for job_id, shape in pairs]
    await context.check_jobs([child for request in requests for wait in request.waits for child in wait.children])
    answers = await context.service.suspend(requests)
    return [answer if isinstance(answer, Refusal) else SuspendedShape(outcome=answer) for answer in answers]


@verb(
    routes, "receive-signal", operation="receive_signal", roles=WORKERS, body=ReceiveSignalShape,
    item=ReceiveSignalItem, response=ReceivedSignalShape, refuses=(*_NO_LEASE, errors.StepsFull),
)  # fmt: skip
async def receive_signal(
    context: RequestContext[Any, Any], pairs: Sequence[tuple[bytes, ReceiveSignalShape]]
) -> list[Any]:
    """Assign the oldest unread signal of a name to a wait of a running job.

    The value is stored as a step with the name of the wait, so later attempts see the same value."""
    requests = [shape.receive_signal(job_id) for job_id, shape in pairs]
    answers = await context.service.receive_signals(requests)
    return [
        answer
        if isinstance(answer, Refusal)
        else ReceivedSignalShape(step=None if answer is None else step_shape(answer, context.response_encoding))
        for answer in answers
    ]
