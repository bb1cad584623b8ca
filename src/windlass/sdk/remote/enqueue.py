"""Jobs come in, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from windlass.core.errors import BadInput, Refusal
from windlass.core.ids import parse_id
from windlass.core.job import Durability, NewJob
from windlass.core.job_template import PreparedJob
from windlass.core.operations import Enqueued
from windlass.store.operation import BatchOperation, Operation
from windlass.wire.enqueue import AcceptedWholeShape, EnqueuedShape, WholeShape
from windlass.wire.new_job import NewJobShape
from windlass.wire.shape import Items, Results

from .facet import AT_ONCE, RemoteAsking
from .request import Requests, post
from .translation import answers_of, new_job_shape

BYTES_MAX = 8 * 1024 * 1024  # payloads in a request; a body may have twice as much


class RemoteProducing(RemoteAsking):
    def enqueue(
        self, jobs: Sequence[NewJob | PreparedJob], *, durability: Durability | None = None, whole: bool = False
    ) -> BatchOperation[Enqueued]:
        super().enqueue(jobs, durability=durability, whole=whole)
        whole_jobs = [one.new_job() if isinstance(one, PreparedJob) else one for one in jobs]
        if any(job.cap is not None for job in whole_jobs):
            raise BadInput("A cap cannot be given over HTTP; enqueue such jobs at the engine itself.")
        made: list[NewJobShape] = []
        level = durability or self.remote.asked_durability
        return BatchOperation(self.remote, lambda: self._send(whole_jobs, made, level, whole))

    def enqueue_one(self, job: NewJob | PreparedJob, *, durability: Durability | None = None) -> Operation[Enqueued]:
        return self.enqueue((job,), durability=durability).one()

    def _send(
        self, jobs: Sequence[NewJob], made: list[NewJobShape], level: Durability | None, whole: bool
    ) -> Requests[list[Enqueued | Refusal]]:
        if not made:  # a question asked twice is about the same jobs
            ids = self.remote.new_ids([job.queue for job in jobs])
            made += [new_job_shape(job.id or own, job) for job, own in zip(jobs, ids, strict=True)]
        query = {"durability": level}
        if whole:
            return (yield from _send_whole(made, query))
        found: list[Enqueued | Refusal] = []
        for part in _parts(jobs, made):
            answer = yield post("/jobs:batch", Results[EnqueuedShape], Items(part), query=query)
            found += answers_of(answer, _enqueued)
        return found


def _send_whole(made: list[NewJobShape], query: dict[str, Durability | None]) -> Requests[list[Enqueued | Refusal]]:
    if not made:
        return []
    try:
        answer = yield post("/jobs:whole", AcceptedWholeShape, WholeShape(made), query=query)
    except Refusal as refusal:
        return [refusal] * len(made)
    return [_enqueued(one) for one in answer.jobs]


def _parts(jobs: Sequence[NewJob], shapes: Sequence[NewJobShape]) -> Iterator[list[NewJobShape]]:
    part: list[NewJobShape] = []
    size = 0
    for job, shape in zip(jobs, shapes, strict=True):
        weight = len(job.payload.data)
        if part and (len(part) == AT_ONCE or size + weight > BYTES_MAX):
            yield part
            part, size = [], 0
        part.append(shape)
        size += weight
    if part:
        yield part


def _enqueued(shape: EnqueuedShape) -> Enqueued:
    return Enqueued(parse_id(shape.id), shape.status, shape.revision, shape.is_durable)
