"""Routes of workers: registration, heartbeats and stop requests."""

from __future__ import annotations

from typing import Any

from windlass.core import errors
from windlass.core.errors import BadInput
from windlass.core.ids import format_id, parse_id
from windlass.core.operations import WorkerInfo
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import ADMINS, READERS, WORKERS, Routes
from windlass.wire.workers import (
    BeatShape,
    ExpectedShape,
    GivenBackShape,
    HeartbeatReplyShape,
    ListWorkersQuery,
    StopRequestedShape,
    UnclaimedShape,
    WorkerShape,
    WorkersShape,
    registered_shape,
)

routes = Routes("/api/v1", tag="Workers")


@routes.get("/workers", roles=READERS, query=ListWorkersQuery, response=WorkersShape)
async def workers(context: RequestContext[None, ListWorkersQuery]) -> WorkersShape:
    """List the registered workers and the jobs that each holds."""
    context.check_all_queues()
    found = await context.service.workers(start=context.query.start, most=context.query.most)
    return WorkersShape(workers=[registered_shape(worker) for worker in found])


@routes.put("/workers/{id}", roles=WORKERS, body=WorkerShape, response=ExpectedShape, refuses=(errors.TooLarge,))
async def register(context: RequestContext[WorkerShape, None]) -> ExpectedShape:
    """Register a worker and the interval of its heartbeats.

    Jobs of a registered worker return to their queues if its heartbeats stop. Register again if a heartbeat is refused
    with `unknown_worker`."""
    worker, body = _worker_id(context), context.body
    for queue in body.queues:
        context.check_queue(queue)
    await context.check_worker(worker, with_jobs=True)
    info = WorkerInfo(**{field: getattr(body, field) for field in body.__struct_fields__ if field != "beat_ms"})
    now_ms = await context.service.register(worker, info, beat_ms=body.beat_ms)
    return ExpectedShape(now_ms=now_ms, silent_at_ms=now_ms + body.beat_ms)


@routes.post(
    "/workers/{id}/beat",
    roles=WORKERS,
    body=BeatShape,
    response=HeartbeatReplyShape,
    refuses=(errors.UnknownWorker, errors.TooLarge),
)
async def beat(context: RequestContext[BeatShape, None]) -> HeartbeatReplyShape:
    """Send a heartbeat. The answer says whether the worker is asked to stop.

    If the heartbeat lists the held jobs, the answer lists leases of the worker that are not among them, because the
    answer to a take was lost. Release them, so that these jobs run at once and not after their leases expire."""
    worker, held = _worker_id(context), context.body.held
    await context.check_worker(worker)
    if held is None:
        return HeartbeatReplyShape(is_asked_to_stop=await context.service.beat([worker]).one())
    reply = await context.service.beat_holding(worker, [parse_id(text) for text in held])
    unclaimed = tuple(UnclaimedShape(id=format_id(lease.id), token=lease.token) for lease in reply.unclaimed)
    return HeartbeatReplyShape(is_asked_to_stop=reply.is_asked_to_stop, unclaimed=unclaimed)


@routes.post(
    "/workers/{id}/stop", roles=ADMINS, response=StopRequestedShape, refuses=(errors.UnknownWorker,), is_audited=True
)
async def stop_worker(context: RequestContext[None, None]) -> StopRequestedShape:
    """Ask a worker to stop gracefully.

    The answer to its next heartbeat says so: it takes no more jobs, finishes the running ones and deregisters. A push
    worker gets no more jobs."""
    worker = _worker_id(context)
    context.audit_target = format_id(worker)
    return StopRequestedShape(was_asked=not await context.service.stop_worker(worker))


@routes.delete(
    "/workers/{id}", roles=WORKERS, response=GivenBackShape, refuses=(errors.UnknownWorker,), operation="forget"
)
async def deregister(context: RequestContext[None, None]) -> GivenBackShape:
    """Deregister a worker. Its jobs return to their queues."""
    worker = _worker_id(context)
    await context.check_worker(worker, with_jobs=True)
    return GivenBackShape(given_back=await context.service.forget(worker))


def _worker_id(context: RequestContext[Any, Any]) -> bytes:
    text = context.path["id"]
    try:
        return parse_id(text)
    except BadInput as error:
        raise BadInput(
            f"{text!r} is not the id of a worker; a worker id is a UUID that the worker generates."
        ) from error
