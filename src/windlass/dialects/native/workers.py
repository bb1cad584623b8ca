"""Workers as such: who they are, whether they live, and what each holds."""

from __future__ import annotations

from typing import Any

from windlass.core import errors
from windlass.core.errors import BadInput
from windlass.core.ids import format_id, parse_id
from windlass.core.operations import WorkerInfo
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import ADMIN, READS, WORKS, Routes
from windlass.wire.workers import (
    BeatShape,
    ExpectedShape,
    GivenBackShape,
    HeartbeatReplyShape,
    StopRequestedShape,
    UnclaimedShape,
    WorkerShape,
    WorkersQuery,
    WorkersShape,
    registered_shape,
)

routes = Routes("/api/v1", tag="Workers")


@routes.get("/workers", roles=READS, query=WorkersQuery, response=WorkersShape)
async def workers(context: RequestContext[None, WorkersQuery]) -> WorkersShape:
    """Registered workers, and what each runs."""
    context.check_all_queues()
    found = await context.service.workers(start=context.query.start, most=context.query.most)
    return WorkersShape(workers=[registered_shape(one) for one in found])


@routes.put("/workers/{id}", roles=WORKS, body=WorkerShape, response=ExpectedShape, refuses=(errors.TooLarge,))
async def register(context: RequestContext[WorkerShape, None]) -> ExpectedShape:
    """A worker says what it is, and how often it will beat.

    What a registered worker has taken goes back to its queue when it falls silent. Register again when a beat is
    refused with `unknown_worker`."""
    worker, body = _worker_id(context), context.body
    for queue in body.queues:
        context.check_queue(queue)
    await context.check_worker(worker, with_jobs=True)
    info = WorkerInfo(host=body.host, pid=body.pid, queues=body.queues, slots=body.slots, name=body.name)
    now_ms = await context.service.register(worker, info, beat_ms=body.beat_ms)
    return ExpectedShape(now_ms=now_ms, silent_at_ms=now_ms + body.beat_ms)


@routes.post(
    "/workers/{id}/beat",
    roles=WORKS,
    body=BeatShape,
    response=HeartbeatReplyShape,
    refuses=(errors.UnknownWorker, errors.TooLarge),
)
async def beat(context: RequestContext[BeatShape, None]) -> HeartbeatReplyShape:
    """Heartbeat of a worker: the answer says whether it is to end.

    A worker that names the jobs it holds also hears of leases under its name that it does not know, because the answer
    to a take was lost. It releases them, and they run at once instead of when their leases end."""
    worker, held = _worker_id(context), context.body.held
    await context.check_worker(worker)
    if held is None:
        return HeartbeatReplyShape(is_asked_to_stop=await context.service.beat([worker]).one())
    heard = await context.service.beat_holding(worker, [parse_id(text) for text in held])
    unclaimed = tuple(UnclaimedShape(id=format_id(one.id), token=one.token) for one in heard.unclaimed)
    return HeartbeatReplyShape(is_asked_to_stop=heard.is_asked_to_stop, unclaimed=unclaimed)


@routes.post(
    "/workers/{id}/stop", roles=ADMIN, response=StopRequestedShape, refuses=(errors.UnknownWorker,), is_audited=True
)
async def stop_worker(context: RequestContext[None, None]) -> StopRequestedShape:
    """Ask a worker to end gently.

    With its next heartbeat it hears so: it takes no more, ends what it runs, and leaves. One that jobs are pushed to
    gets no more."""
    worker = _worker_id(context)
    context.audit_target = format_id(worker)
    return StopRequestedShape(was_asked=not await context.service.stop_worker(worker))


@routes.delete("/workers/{id}", roles=WORKS, response=GivenBackShape, refuses=(errors.UnknownWorker,))
async def forget(context: RequestContext[None, None]) -> GivenBackShape:
    """A worker leaves; what it holds goes back."""
    worker = _worker_id(context)
    await context.check_worker(worker, with_jobs=True)
    return GivenBackShape(given_back=await context.service.forget(worker))


def _worker_id(context: RequestContext[Any, Any]) -> bytes:
    text = context.path["id"]
    try:
        return parse_id(text)
    except BadInput as error:
        raise BadInput(f"{text!r} is not the id of a worker; it is a UUID that the worker makes for itself.") from error
