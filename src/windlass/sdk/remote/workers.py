"""Worker operations over HTTP. Workers learn of stop requests from the answers to their heartbeats, and servers of dead
workers from the end of a connection."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence

import aiohttp
import msgspec

from windlass.core.errors import (
    BadInput,
    BadSetting,
    EngineUnsuitable,
    Forbidden,
    Refusal,
    Unauthorized,
    UnknownWorker,
    WindlassError,
)
from windlass.core.ids import format_id, parse_id
from windlass.core.operations import HeartbeatReply, LeaseRef, Worker, WorkerInfo, WorkerJob
from windlass.core.stats.failure_groups import FailureGroup
from windlass.core.stats.task_figures import TaskPage, TaskSummary, TaskSums, TaskWorker
from windlass.core.validation.bounds import PAGE_MAX
from windlass.pauses import Pauses
from windlass.store.operation import BatchOperation, Operation
from windlass.wire.failure_groups import FailureGroupShape
from windlass.wire.sse import EVENT_STREAM, KEEP_ALIVE_S
from windlass.wire.workers import (
    BeatShape,
    ExpectedShape,
    GivenBackShape,
    HeartbeatReplyShape,
    RegisteredShape,
    StopRequestedShape,
    TaskReportedShape,
    TaskReportShape,
    TaskShape,
    TasksShape,
    WorkerShape,
    WorkersShape,
    task_figures,
    task_step,
    task_sums_shape,
)

from .facet import RemoteFacet
from .request import ApiRequest, ApiResponse, RequestFlow, answer_lost, error_of, get, post, quote_segment
from .store import RemoteStore

log = logging.getLogger("windlass.worker")

SILENT_S = 3 * KEEP_ALIVE_S  # a connection that is silent for longer is dead
PAUSES = Pauses(0.05, 1.0, jitter=0.5)  # the first ones together are shorter than the grace of the server
STEADY_S = 5.0  # a connection that has lasted as long is opened again without a pause
AFTER_REFUSAL_S = 60.0
_REFUSALS = (EngineUnsuitable, Forbidden, Unauthorized, BadInput, BadSetting)  # also by a server of an earlier version


class RemoteWorkerOperations(RemoteFacet):
    def register(self, worker: bytes, info: WorkerInfo, *, beat_ms: int = 30_000) -> Operation[int]:
        super().register(worker, info, beat_ms=beat_ms)
        return Operation(self.remote, lambda: _register(worker, info, beat_ms))

    def hear_cancels(self, handler: Callable[[bytes], None]) -> None:
        """Do nothing: a server does not push cancels. The next heartbeat shows them."""

    def beat(self, ids: Sequence[bytes]) -> BatchOperation[bool]:
        super().beat(ids)
        return BatchOperation(self.remote, lambda: _send_heartbeats(ids))

    def beat_holding(self, worker: bytes, held: Sequence[bytes]) -> Operation[HeartbeatReply]:
        super().beat_holding(worker, held)
        body = BeatShape(held=tuple(map(format_id, held)))
        return self._single(post(f"/workers/{format_id(worker)}/beat", HeartbeatReplyShape, body), _heartbeat_reply)

    def forget(self, worker: bytes) -> Operation[int]:
        super().forget(worker)
        request = ApiRequest(method="DELETE", path=f"/workers/{format_id(worker)}", response_type=GivenBackShape)
        return self._single(request, lambda reply: reply.given_back)

    def stop_worker(self, worker: bytes) -> Operation[bool]:
        super().stop_worker(worker)
        request = post(f"/workers/{format_id(worker)}/stop", StopRequestedShape)
        return self._single(request, lambda reply: not reply.was_asked)

    def workers(self, *, start: int = 0, most: int = 100) -> Operation[list[Worker]]:
        super().workers(start=start, most=most)
        request = get("/workers", WorkersShape, query={"start": start, "most": most})
        return self._single(request, lambda reply: [_worker(shape) for shape in reply.workers])

    def report_tasks(self, worker: bytes, number: int, tasks: Sequence[TaskSums]) -> Operation[int]:
        super().report_tasks(worker, number, tasks)
        body = TaskReportShape(number=number, tasks=tuple(map(task_sums_shape, tasks)))
        request = post(f"/workers/{format_id(worker)}/tasks", TaskReportedShape, body)
        return self._single(request, lambda reply: reply.uncounted)

    def tasks(self, *, queues: tuple[str, ...] = ()) -> Operation[list[TaskSummary]]:
        """Ask the server. It shows what the token may see, so `queues` has no effect."""
        super().tasks(queues=queues)
        return Operation(self.remote, _list_tasks)

    def task(
        self, name: str, *, step_minutes: int = 1, steps: int = 60, queues: tuple[str, ...] = ()
    ) -> Operation[TaskPage]:
        """Ask the server. It shows what the token may see, so `queues` has no effect."""
        super().task(name, step_minutes=step_minutes, steps=steps, queues=queues)
        query = {"step_minutes": step_minutes, "steps": steps}
        return self._single(get(f"/tasks/{quote_segment(name)}", TaskShape, query=query), _task_page)


def _list_tasks() -> RequestFlow[list[TaskSummary]]:
    found: list[TaskSummary] = []
    after = ""
    while True:
        page = yield get("/tasks", TasksShape, query={"after": after or None, "most": PAGE_MAX})
        for shape in page.tasks:
            fields = {name: getattr(shape, name) for name in shape.__struct_fields__}
            found.append(TaskSummary(**fields | {"figures": task_figures(shape.figures)}))
        after = page.after
        if not after:
            return found


def _task_page(shape: TaskShape) -> TaskPage:
    fields = {name: getattr(shape, name) for name in shape.__struct_fields__}
    converted = {
        "figures": task_figures(shape.figures),
        "steps": [task_step(step) for step in shape.steps],
        "workers": [
            TaskWorker(id=parse_id(worker.id), name=worker.name, host=worker.host, queues=worker.queues)
            for worker in shape.workers
        ],
        "failures": [_failure_group(group) for group in shape.failures],
    }
    return TaskPage(**fields | converted)


def _failure_group(shape: FailureGroupShape) -> FailureGroup:
    fields = {name: getattr(shape, name) for name in shape.__struct_fields__}
    return FailureGroup(**fields | {"sample": parse_id(shape.sample)})


def _register(worker: bytes, info: WorkerInfo, beat_ms: int) -> RequestFlow[int]:
    given = {name: getattr(info, name) for name in WorkerShape.__struct_fields__ if name != "beat_ms"}
    body = WorkerShape(beat_ms=beat_ms, **given)
    path = f"/workers/{format_id(worker)}"
    reply: ExpectedShape
    try:
        reply = yield ApiRequest(method="PUT", path=path, response_type=ExpectedShape, body=body)
    except BadInput:  # a server of an earlier version refuses fields that it does not know
        body = msgspec.structs.replace(body, **dict.fromkeys(("version", "python"), ""), memory_bytes=0)
        reply = yield ApiRequest(method="PUT", path=path, response_type=ExpectedShape, body=body)
    return reply.now_ms


def _send_heartbeats(ids: Sequence[bytes]) -> RequestFlow[list[bool | Refusal]]:
    answers: list[bool | Refusal] = []
    for worker in ids:
        try:
            reply = yield post(f"/workers/{format_id(worker)}/beat", HeartbeatReplyShape)
            answers.append(reply.is_asked_to_stop)
        except Refusal as refusal:
            answers.append(refusal)
    return answers


def _heartbeat_reply(shape: HeartbeatReplyShape) -> HeartbeatReply:
    return HeartbeatReply(
        shape.is_asked_to_stop, [LeaseRef(parse_id(lease.id), lease.token) for lease in shape.unclaimed]
    )


def _worker(shape: RegisteredShape) -> Worker:
    return Worker(
        id=parse_id(shape.id),
        info=WorkerInfo(
            host=shape.host,
            pid=shape.pid,
            queues=shape.queues,
            slots=shape.slots,
            name=shape.name,
            names=shape.names,
            url=shape.url,
            version=shape.version,
            python=shape.python,
            memory_bytes=shape.memory_bytes,
            component=shape.component,
        ),
        started_at_ms=shape.started_at_ms,
        silent_at_ms=shape.silent_at_ms,
        beat_at_ms=shape.beat_at_ms,
        running_count=shape.running_count,
        running=[WorkerJob(parse_id(job.id), job.since_ms) for job in shape.running],
        stopping_since_ms=shape.stopping_since_ms,
    )


class WorkerConnection:
    """Connection of one worker, opened again whenever it ends. Call `reopen` after each further registration."""

    def __init__(self, store: RemoteStore, worker: bytes) -> None:
        self._store = store
        self._request = get(f"/workers/{format_id(worker)}/connection", None)
        self._registered = asyncio.Event()

    def reopen(self) -> None:
        """Connect again: with a former registration the server has forgotten the connection."""
        self._registered.set()

    async def run(self) -> None:
        """Keep the connection open until cancelled."""
        failures = 0
        while True:
            self._registered.clear()
            opened_at_s = time.monotonic()
            try:
                await self._hold_until_registered()
            except UnknownWorker:
                await self._wait_for_registration(None)
                continue
            except _REFUSALS as error:
                log.info("The server does not watch the connection of this worker: %s", error)
                await self._wait_for_registration(AFTER_REFUSAL_S)
                continue
            except WindlassError as error:
                log.debug("The connection of this worker has ended: %s", error)
            failures = 0 if time.monotonic() - opened_at_s >= STEADY_S else failures + 1
            if failures:
                await asyncio.sleep(PAUSES.after(failures))

    async def _wait_for_registration(self, patience_s: float | None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await self._registered.wait()

    async def _hold_until_registered(self) -> None:
        holding = asyncio.ensure_future(self._hold())
        registered = asyncio.ensure_future(self._registered.wait())
        try:
            await asyncio.wait((holding, registered), return_when=asyncio.FIRST_COMPLETED)
        finally:
            registered.cancel()
            if not holding.done():
                holding.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await holding

    async def _hold(self) -> None:
        """Read the connection to its end."""
        headers, endpoint = {"Accept": EVENT_STREAM}, self._store.endpoint
        async with self._store.session.open_response(self._request, headers, read_s=SILENT_S) as response:
            if response.status != 200:
                answer = ApiResponse(response.status, response.content_type, await response.read())
                raise error_of(endpoint, self._request.path, answer)
            try:
                while await response.content.readany():
                    pass
            except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
                raise answer_lost(endpoint, error) from error
