"""Worker operations over HTTP. Workers learn of stop requests from the answers to their heartbeats."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from windlass.core.errors import BadInput, Refusal
from windlass.core.ids import format_id, parse_id
from windlass.core.operations import HeartbeatReply, LeaseRef, Worker, WorkerInfo, WorkerJob
from windlass.store.operation import BatchOperation, Operation
from windlass.wire.workers import (
    BeatShape,
    ExpectedShape,
    GivenBackShape,
    HeartbeatReplyShape,
    RegisteredShape,
    StopRequestedShape,
    WorkerShape,
    WorkersShape,
)

from .facet import RemoteFacet
from .request import ApiRequest, RequestFlow, get, post


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
