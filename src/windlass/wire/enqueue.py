"""Shapes of the enqueue operations, and a fast codec for long lists of jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeGuard

import msgspec
from msgspec import UNSET, Meta

from windlass.core.errors import Refusal
from windlass.core.ids import format_id
from windlass.core.job import NULL_BLOB, Blob, Codec, Durability
from windlass.core.job_template import PreparedJob
from windlass.core.operations import Enqueued
from windlass.core.validation.bounds import WHOLE_MAX

from .encoding import NESTING_MAX, Encoding, check_depth, decode
from .fields import Id
from .new_job import NewJobShape, SimpleJobShape, simple_template
from .problems import Problem
from .shape import Items, RequestShape, ResponseShape


class EnqueueQuery(RequestShape, frozen=True, kw_only=True):
    durability: Annotated[
        Durability | None, Meta(description="memory, fsync or replica; default: that of the deployment.")
    ] = None


class EnqueuedShape(ResponseShape, frozen=True, kw_only=True, gc=False):
    """The accepted job. `existing`: a job with this id, idempotency key or unique key already exists. `is_durable` is
    false if the requested durability was not confirmed in time; the job is accepted all the same."""

    id: Id
    status: Literal["queued", "scheduled", "waiting", "existing", "replaced", "ended"]
    revision: int
    is_durable: bool


def enqueued_shape(enqueued: Enqueued) -> EnqueuedShape:
    return EnqueuedShape(
        id=format_id(enqueued.id),
        status=enqueued.status,
        revision=enqueued.revision,
        is_durable=enqueued.is_durable,
    )


class WholeShape(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    items: Annotated[list[NewJobShape], Meta(min_length=1, max_length=WHOLE_MAX)]


class AcceptedWholeShape(ResponseShape, frozen=True, kw_only=True):
    """The accepted jobs, in the order of the items."""

    jobs: list[EnqueuedShape]


class StreamStep(ResponseShape, frozen=True, kw_only=True):
    """Progress of a stream. Jobs that are counted as accepted are durable."""

    lines: int
    accepted: int
    existing: int
    refused: int
    is_end: bool = False
    error: Problem | None = None  # the reason, if the response ends before the stream


class StreamRefusal(ResponseShape, frozen=True, kw_only=True):
    line: int
    error: Problem


_decode_simple = msgspec.json.Decoder(Items[SimpleJobShape]).decode
_PAYLOAD_DEPTH = 3  # levels around a payload in the list
_DECODE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def decode_jobs(body: bytes, encoding: Encoding) -> list[PreparedJob]:
    """Decode a list of jobs. A list of simple JSON jobs takes the fast path.

    If the fast path fails, NewJobShape decodes the list again, so that errors are the same on both paths."""
    found = _decode_simple_jobs(body) if encoding is Codec.JSON else None
    if found is not None:
        return found
    return [item.prepare(encoding) for item in decode(body, Items[NewJobShape], encoding).items]


def _decode_simple_jobs(body: bytes) -> list[PreparedJob] | None:
    try:
        if not body.isascii():
            body.decode()  # the decoder does not validate UTF-8 in payloads
        items: list[SimpleJobShape] = _decode_simple(body).items
    except _DECODE_ERRORS:
        return None
    jobs = [
        PreparedJob(
            simple_template(item.queue, item.name),
            NULL_BLOB if item.payload is UNSET else Blob(bytes(item.payload), Codec.JSON),
        )
        for item in items
    ]
    if max([len(job.payload.data) for job in jobs], default=0) > NESTING_MAX - _PAYLOAD_DEPTH:
        check_depth(body, Codec.JSON)
    return jobs


def are_all_accepted(answers: Sequence[Enqueued | Refusal]) -> TypeGuard[Sequence[Enqueued]]:
    kinds: set[type[Any]] = set(map(type, answers))
    return kinds == {Enqueued}


def encode_accepted(answers: Sequence[Enqueued]) -> bytes:
    """Encode `Results[EnqueuedShape]` as JSON, without a struct for each job."""
    items = [
        f'{{"ok":{{"id":"{format_id(answer.id)}","status":"{answer.status}","revision":{answer.revision},'
        f'"is_durable":{"true" if answer.is_durable else "false"}}}}}'
        for answer in answers
    ]
    return f'{{"results":[{",".join(items)}]}}'.encode()
