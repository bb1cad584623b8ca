"""Workers as such, over HTTP. A server tells them of requests to stop with their heartbeats only."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from windlass.core.errors import Refusal
from windlass.core.ids import format_id, parse_id
from windlass.core.operations import HeartbeatReply, LeaseRef, RunningJob, Worker, WorkerInfo
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

from .facet import RemoteAsking
from .request import Request, Requests, get, post


class RemoteStaffing(RemoteAsking):
    def register(self, worker: bytes, info: WorkerInfo, *, beat_ms: int = 30_000) -> Operation[int]:
        super().register(worker, info, beat_ms=beat_ms)
        body = WorkerShape(
            host=info.host, pid=info.pid, queues=info.queues, slots=info.slots, name=info.name, beat_ms=beat_ms
        )
        request = Request(method="PUT", path=f"/workers/{format_id(worker)}", gives=ExpectedShape, body=body)
        return self._one(request, lambda found: found.now_ms)

    def hear_cancels(self, handler: Callable[[bytes], None]) -> None:
        """Nobody calls us: what is asked to stop is seen with the next heartbeat."""

    def beat(self, ids: Sequence[bytes]) -> BatchOperation[bool]:
        super().beat(ids)
        return BatchOperation(self.remote, lambda: _beat(ids))

    def beat_holding(self, worker: bytes, held: Sequence[bytes]) -> Operation[HeartbeatReply]:
        super().beat_holding(worker, held)
        body = BeatShape(held=tuple(map(format_id, held)))
        return self._one(post(f"/workers/{format_id(worker)}/beat", HeartbeatReplyShape, body), _heard)

    def forget(self, worker: bytes) -> Operation[int]:
        super().forget(worker)
        request = Request(method="DELETE", path=f"/workers/{format_id(worker)}", gives=GivenBackShape)
        return self._one(request, lambda found: found.given_back)

    def stop_worker(self, worker: bytes) -> Operation[bool]:
        super().stop_worker(worker)
        request = post(f"/workers/{format_id(worker)}/stop", StopRequestedShape)
        return self._one(request, lambda found: not found.was_asked)

    def workers(self, *, start: int = 0, most: int = 100) -> Operation[list[Worker]]:
        super().workers(start=start, most=most)
        request = get("/workers", WorkersShape, query={"start": start, "most": most})
        return self._one(request, lambda found: [_worker(one) for one in found.workers])


def _beat(ids: Sequence[bytes]) -> Requests[list[bool | Refusal]]:
    answers: list[bool | Refusal] = []
    for worker in ids:
        try:
            heard = yield post(f"/workers/{format_id(worker)}/beat", HeartbeatReplyShape)
            answers.append(heard.is_asked_to_stop)
        except Refusal as refusal:
            answers.append(refusal)
    return answers


def _heard(shape: HeartbeatReplyShape) -> HeartbeatReply:
    return HeartbeatReply(shape.is_asked_to_stop, [LeaseRef(parse_id(one.id), one.token) for one in shape.unclaimed])


def _worker(shape: RegisteredShape) -> Worker:
    return Worker(
        id=parse_id(shape.id),
        info=WorkerInfo(
            host=shape.host, pid=shape.pid, queues=shape.queues, slots=shape.slots, name=shape.name, url=shape.url
        ),
        started_at_ms=shape.started_at_ms,
        silent_at_ms=shape.silent_at_ms,
        beat_at_ms=shape.beat_at_ms,
        running_count=shape.running_count,
        running=[RunningJob(parse_id(one.id), one.since_ms) for one in shape.running],
        stopping_since_ms=shape.stopping_since_ms,
    )
