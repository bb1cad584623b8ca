"""Routes of workers: registration, heartbeats, connections and stop requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec

from windlass.core import errors
from windlass.core.errors import BadInput, Forbidden, WindlassError
from windlass.core.ids import format_id, parse_id
from windlass.core.operations import WorkerInfo
from windlass.retry_loop import RetryLoop
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import ADMINS, READERS, WORKERS, Routes
from windlass.web.app.sse import event_stream
from windlass.web.listener.messages import StreamedResponse
from windlass.wire import sse
from windlass.wire.durable.streams import KEEP_ALIVE
from windlass.wire.workers import (
    BeatShape,
    ExpectedShape,
    GivenBackShape,
    HeartbeatReplyShape,
    ListWorkersQuery,
    StopRequestedShape,
    UnclaimedShape,
    WorkerConnectedShape,
    WorkerConnectionQuery,
    WorkerShape,
    WorkersShape,
    registered_shape,
)

log = logging.getLogger("windlass.server")

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


@routes.get(
    "/workers/{id}/connection", operation="connect_worker", roles=WORKERS, query=WorkerConnectionQuery,
    response=WorkerConnectedShape, response_media=sse.EVENT_STREAM, waits=True, refuses=(errors.UnknownWorker,),
)  # fmt: skip
async def connect_worker(context: RequestContext[None, WorkerConnectionQuery]) -> StreamedResponse:
    """Tie the jobs of a registered worker to this connection.

    When the connection drops, the worker loses its jobs after the grace, unless it has connected again: each job spends
    an attempt and runs again. The answer is a stream of server-sent events that lasts until the worker closes it or the
    server stops; a server that stops takes no jobs. Connect again after each registration."""
    worker = _worker_id(context)
    await context.check_worker(worker, with_jobs=True)
    connection = await context.service.connect_worker(worker)
    return event_stream(_frames(context), WorkerConnection(context, worker, connection))


async def _frames(context: RequestContext[None, WorkerConnectionQuery]) -> AsyncGenerator[bytes, None]:
    yield sse.encode_frame("connected", msgspec.json.encode(WorkerConnectedShape(grace_ms=context.query.grace_ms)))
    while not context.state.stopping.is_set():
        await context.state.wait_or_stop(asyncio.sleep(sse.KEEP_ALIVE_S), None)
        if not await context.state.still_admits(context.request.head, WORKERS):
            return
        yield KEEP_ALIVE


class WorkerConnection(AbstractAsyncContextManager["WorkerConnection"]):
    """Open connection of one worker. A server that stops leaves the jobs to the worker, which connects again."""

    def __init__(self, context: RequestContext[None, WorkerConnectionQuery], worker: bytes, connection: bytes) -> None:
        self._context = context
        self._worker = worker
        self._connection = connection

    async def __aexit__(self, *_exc: object) -> None:
        if not self._context.state.stopping.is_set():
            self._context.service.store.run_in_background(self._drop())

    async def _drop(self) -> None:
        await self._context.state.wait_or_stop(asyncio.sleep(self._context.query.grace_ms / 1000), None)
        if self._context.state.stopping.is_set():
            return
        failure = "Could not free the jobs of a worker whose connection dropped"
        retries = RetryLoop(log, failure, WindlassError, unless=Forbidden)
        try:
            freed = await retries.until_done(self._free_jobs, self._context.state.stopping)
        except WindlassError as error:
            log.warning("%s: %s They run again when the worker counts as lost.", failure, error)
            return
        if freed:
            log.warning(
                "Worker %s held %d jobs when its connection dropped. Each spends an attempt and is retried while tries "
                "are left.",
                format_id(self._worker),
                freed,
            )

    async def _free_jobs(self) -> int:
        # The worker may serve and hold more than when it connected.
        await self._context.check_worker(self._worker, with_jobs=True)
        return await self._context.service.disconnect_worker(self._worker, self._connection)


def _worker_id(context: RequestContext[Any, Any]) -> bytes:
    text = context.path["id"]
    try:
        return parse_id(text)
    except BadInput as error:
        raise BadInput(
            f"{text!r} is not the id of a worker; a worker id is a UUID that the worker generates."
        ) from error
