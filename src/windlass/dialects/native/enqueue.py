"""Routes that enqueue jobs: one, a batch, or a stream."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence
from typing import Any, TypeAlias

import msgspec

from windlass.core import errors
from windlass.core.errors import BadInput, Refusal, WindlassError
from windlass.core.job import Codec
from windlass.core.job_template import PreparedJob
from windlass.core.operations import Enqueued
from windlass.core.text.line_splitter import LineSplitter, batches
from windlass.web.app.content_negotiation import json_response
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import ADMINS, PRODUCERS, Answer, Routes
from windlass.web.listener.deferred import DeferredAnswer
from windlass.web.listener.messages import Response, StreamedResponse
from windlass.wire.encoding import Encoding, decode
from windlass.wire.enqueue import (
    EnqueuedShape,
    EnqueueQuery,
    StreamRefusal,
    StreamStep,
    are_all_accepted,
    decode_jobs,
    encode_accepted,
    enqueued_shape,
)
from windlass.wire.new_job import NewJobShape
from windlass.wire.problems import problem_of
from windlass.wire.shape import Items, Results, to_results

from .relations import named_by, read_relations

routes = Routes("/api/v1", tag="Producing")

KEY_MAX = 255
_HEADERS = {
    "Idempotency-Key": "Up to 255 characters of your choice. A repeated request with the same key adds no second job."
}
STREAM_BATCH = 500  # jobs of a stream that are enqueued together
LINE_MAX = 2 * 1024 * 1024
_REFUSES = (
    errors.TooLarge, errors.IdConflict, errors.QueueFull, errors.EngineFull, errors.RevisionConflict,
    errors.UniqueConflict, errors.UnknownParent, errors.ParentState, errors.UnknownMember, errors.CrossPartition,
    errors.Unsettled, errors.WrongState, errors.BadSetting, errors.UnknownLimit,
)  # fmt: skip

EnqueueContext: TypeAlias = RequestContext[NewJobShape, EnqueueQuery]


@routes.post(
    "/jobs", roles=PRODUCERS, body=NewJobShape, query=EnqueueQuery, response=EnqueuedShape, status=201,
    other_responses={200: EnqueuedShape}, refuses=_REFUSES, headers=_HEADERS,
)  # fmt: skip
def enqueue(context: EnqueueContext) -> DeferredAnswer[Enqueued, Answer] | Awaitable[Answer]:
    """Enqueue one job.

    201: the job was accepted. 200: it exists already (same id, same `Idempotency-Key`, or a unique key that another job
    has). With an `Idempotency-Key` a request can be repeated: the same key means the same job while the job exists and
    for ten minutes after its removal. The same key with other contents is refused."""
    context.check_queue(context.body.queue)
    job = context.body.prepare(context.body_encoding)
    check_caps(context, (job,))
    if "idempotency-key" in context.request.head.headers:
        [job] = _with_ids(context, [job])
    if context.principal.queues and named_by(job.template.job):
        return _enqueue_related(context, job)
    return DeferredAnswer(context.state.batcher.enqueue(job, context.query.durability), _answer_of)


def check_caps(context: RequestContext[Any, Any], jobs: Iterable[PreparedJob]) -> None:
    """Check the right to set the caps of new jobs. A cap is for all jobs of its key, as one that `set_cap` changes."""
    if any([job.template.job.cap is not None for job in jobs]):  # noqa: C419 (a list is quicker, and these are many)
        context.principal.check(ADMINS)
        context.check_all_queues()


async def _enqueue_related(context: EnqueueContext, job: PreparedJob) -> Answer:
    """Enqueue a job that names other jobs, for a token limited to some queues."""
    [answer] = await _enqueue(context, [job])
    if isinstance(answer, Refusal):
        raise answer
    return _answer(answer)


async def _enqueue(
    context: RequestContext[Any, EnqueueQuery], jobs: Sequence[PreparedJob], *, refuses_all: bool = False
) -> Sequence[Enqueued | Refusal]:
    """Enqueue jobs within the rights of the token. `refuses_all`: a relation to a job of another queue refuses all."""
    relations = await read_relations(context, jobs)
    if relations is None:
        return await context.service.enqueue(jobs, durability=context.query.durability)
    if refuses_all:
        relations.check(jobs)
    return await relations.enqueue(jobs, context.query.durability)


def _answer_of(future: asyncio.Future[Enqueued]) -> Answer:
    return _answer(future.result())


def _answer(enqueued: Enqueued) -> Answer:
    shape = enqueued_shape(enqueued)
    location = (("Location", f"/api/v1/jobs/{shape.id}"),)
    return Answer(shape, 200 if enqueued.status in ("existing", "ended") else 201, location)


@routes.post(
    "/jobs:batch", roles=PRODUCERS, body=Items[NewJobShape], decode_body=decode_jobs, query=EnqueueQuery,
    response=Results[EnqueuedShape], refuses=(errors.TooLarge, errors.BadSetting), headers=_HEADERS,
)  # fmt: skip
async def enqueue_many(context: RequestContext[list[PreparedJob], EnqueueQuery]) -> Response | Results[EnqueuedShape]:
    """Enqueue up to 1,000 jobs.

    Each job is accepted or refused separately. The results are in the order of the items. An `Idempotency-Key` applies
    to the whole list: repeat it with the same jobs in the same order."""
    for queue in {job.template.job.queue for job in context.body} if context.principal.queues else ():
        context.check_queue(queue)
    check_caps(context, context.body)
    answers = await _enqueue(context, _with_ids(context, context.body), refuses_all=True)
    if context.response_encoding is Codec.JSON and are_all_accepted(answers):
        return json_response(200, encode_accepted(answers))
    return to_results(answers, enqueued_shape)


def _with_ids(context: RequestContext[Any, Any], jobs: Sequence[PreparedJob]) -> Sequence[PreparedJob]:
    """Derive job ids from the idempotency key and the token, so that the engine recognises a repeated request."""
    key = context.request.head.headers.get("idempotency-key")
    if key is None:
        return jobs
    if not 0 < len(key) <= KEY_MAX:
        raise BadInput(f"Idempotency-Key must have 1 to {KEY_MAX} characters.")
    if any(job.template.job.id for job in jobs):
        raise BadInput("Give an id or an Idempotency-Key, not both: the id is derived from the key.")
    return [
        PreparedJob(
            job.template,
            job.payload,
            _id_for(context, f"{context.principal.name}\0{key}\0{number}", job.template.job.queue),
        )
        for number, job in enumerate(jobs)
    ]


def _id_for(context: RequestContext[Any, Any], text: str, queue: str) -> bytes:
    """Make a UUID of version 8 from a digest, in the partition of the queue."""
    digest = hashlib.blake2b(text.encode(errors="surrogateescape"), digest_size=16).digest()
    partition = 0x8000 | context.service.store.partition_of_queue(queue)
    return digest[:6] + partition.to_bytes(2, "big") + bytes([digest[8] & 0x3F | 0x80]) + digest[9:]


@routes.post(
    "/jobs:stream", roles=PRODUCERS, body=NewJobShape, body_media="application/x-ndjson", query=EnqueueQuery,
    response=StreamStep, response_media="application/x-ndjson", streams_body=True, refuses=(),
)  # fmt: skip
async def enqueue_stream(context: RequestContext[None, EnqueueQuery]) -> StreamedResponse:
    """Enqueue any number of jobs, one JSON object per line.

    The answer is also a stream of lines: a `{"line", "error"}` for each refused line, and regular progress lines. Jobs
    that a progress line counts as accepted are stored. The last line has `is_end`."""
    return StreamedResponse(200, _enqueue_stream(context), (), "application/x-ndjson")


class _Progress:
    def __init__(self) -> None:
        self.lines = self.accepted = self.existing = self.refused = 0

    def line(self, *, is_end: bool = False, error: WindlassError | None = None) -> bytes:
        return _line(
            StreamStep(
                lines=self.lines,
                accepted=self.accepted,
                existing=self.existing,
                refused=self.refused,
                is_end=is_end,
                error=None if error is None else problem_of(error),
            )
        )

    def count(self, answer: Enqueued) -> None:
        if answer.status in ("existing", "ended"):
            self.existing += 1
        else:
            self.accepted += 1


def _line(value: msgspec.Struct) -> bytes:
    return msgspec.json.encode(value) + b"\n"


async def _enqueue_stream(context: RequestContext[None, EnqueueQuery]) -> AsyncIterator[bytes]:
    progress = _Progress()
    lines = LineSplitter(LINE_MAX)
    assert context.request.chunks is not None  # noqa: S101 (the route streams)
    try:
        async for chunk in context.request.chunks:
            for batch in batches(lines.feed(chunk), STREAM_BATCH):
                yield await _step(context, batch, progress)
        for batch in batches(lines.end(), STREAM_BATCH):
            yield await _step(context, batch, progress)
        yield progress.line(is_end=True)
    except WindlassError as error:
        yield progress.line(is_end=True, error=error)


async def _step(context: RequestContext[None, EnqueueQuery], batch: Sequence[bytes], progress: _Progress) -> bytes:
    """Enqueue one batch of lines. Returns the lines of the answer: refusals, then progress."""
    jobs: list[tuple[int, PreparedJob]] = []
    output: list[bytes] = []
    encoding: Encoding = Codec.JSON

    def refuse(number: int, error: Refusal) -> None:
        progress.refused += 1
        output.append(_line(StreamRefusal(line=number, error=problem_of(error))))

    for text in batch:
        progress.lines += 1
        if not text.strip():
            continue
        try:
            shape = decode(text, NewJobShape, encoding)
            context.check_queue(shape.queue)
            job = shape.prepare(encoding)
            check_caps(context, (job,))
            context.service.enqueue([job])  # validates the job, so that only a bad line is refused
            jobs.append((progress.lines, job))
        except Refusal as error:
            refuse(progress.lines, error)
    answers = await _enqueue(context, [job for _, job in jobs]) if jobs else []
    for (number, _), answer in zip(jobs, answers, strict=True):
        if isinstance(answer, Refusal):
            refuse(number, answer)
        else:
            progress.count(answer)
    return b"".join(output) + progress.line()
