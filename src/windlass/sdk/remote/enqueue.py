"""Enqueue operations over HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from windlass.core.errors import Refusal
from windlass.core.ids import parse_id
from windlass.core.job import Durability, NewJob
from windlass.core.job_template import PreparedJob
from windlass.core.operations import Enqueued
from windlass.store.operation import BatchOperation, Operation
from windlass.wire.enqueue import AcceptedWholeShape, EnqueuedShape, WholeShape
from windlass.wire.new_job import NewJobShape
from windlass.wire.shape import Items, Results

from .facet import BATCH_MAX, RemoteFacet
from .request import RequestFlow, post
from .translation import new_job_shape, read_results

PAYLOADS_MAX = 8 * 1024 * 1024  # bytes of payloads in one request; the server accepts bodies of twice that size


class RemoteEnqueueOperations(RemoteFacet):
    def enqueue(
        self, jobs: Sequence[NewJob | PreparedJob], *, durability: Durability | None = None, whole: bool = False
    ) -> BatchOperation[Enqueued]:
        super().enqueue(jobs, durability=durability, whole=whole)
        new_jobs = [job.new_job() if isinstance(job, PreparedJob) else job for job in jobs]
        shapes: list[NewJobShape] = []
        level = durability or self.remote.requested_durability
        return BatchOperation(self.remote, lambda: self._send(new_jobs, shapes, level, whole))

    def enqueue_one(self, job: NewJob | PreparedJob, *, durability: Durability | None = None) -> Operation[Enqueued]:
        return self.enqueue((job,), durability=durability).one()

    def _send(
        self, jobs: Sequence[NewJob], shapes: list[NewJobShape], level: Durability | None, whole: bool
    ) -> RequestFlow[list[Enqueued | Refusal]]:
        if not shapes:  # an operation that runs twice enqueues the same jobs
            ids = self.remote.new_ids([job.queue for job in jobs])
            shapes += [new_job_shape(job.id or new_id, job) for job, new_id in zip(jobs, ids, strict=True)]
        query = {"durability": level}
        if whole:
            return (yield from _send_atomically(shapes, query))
        found: list[Enqueued | Refusal] = []
        for part in _split_into_requests(jobs, shapes):
            answer = yield post("/jobs:batch", Results[EnqueuedShape], Items(part), query=query)
            found += read_results(answer, len(part), enqueued_of)
        return found


def _send_atomically(
    shapes: list[NewJobShape], query: dict[str, Durability | None]
) -> RequestFlow[list[Enqueued | Refusal]]:
    if not shapes:
        return []
    try:
        answer = yield post("/jobs:whole", AcceptedWholeShape, WholeShape(shapes), query=query)
    except Refusal as refusal:
        return [refusal] * len(shapes)
    return [enqueued_of(shape) for shape in answer.jobs]


def _split_into_requests(jobs: Sequence[NewJob], shapes: Sequence[NewJobShape]) -> Iterator[list[NewJobShape]]:
    part: list[NewJobShape] = []
    size = 0
    for job, shape in zip(jobs, shapes, strict=True):
        weight = len(job.payload.data)
        if part and (len(part) == BATCH_MAX or size + weight > PAYLOADS_MAX):
            yield part
            part, size = [], 0
        part.append(shape)
        size += weight
    if part:
        yield part


def enqueued_of(shape: EnqueuedShape) -> Enqueued:
    return Enqueued(parse_id(shape.id), shape.status, shape.revision, shape.is_durable)
