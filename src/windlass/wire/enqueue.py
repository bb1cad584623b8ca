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

from .batches import Items
from .encoding import NESTING_MAX, Encoding, check_depth, decode
from .fields import Given, Id, Shape
from .new_job import NewJobShape, PlainJobShape, plain_form
from .problems import Problem


class EnqueueQuery(Shape, frozen=True, kw_only=True):
    durability: Annotated[
        Durability | None, Meta(description="memory, fsync or replica; default: the deployment's.")
    ] = None


class EnqueuedShape(Given, frozen=True, kw_only=True, gc=False):
    """`existing`: the id, the key or the unique key was there before. `is_durable` false: accepted, but the asked-for
    durability was not confirmed in time."""

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


class AcceptedWholeShape(Given, frozen=True, kw_only=True):
    """In the order of the items."""

    jobs: list[EnqueuedShape]


class StreamStep(Given, frozen=True, kw_only=True):
    """How far a stream has come. What these lines say of earlier lines is durable."""

    lines: int
    accepted: int
    existing: int
    refused: int
    is_end: bool = False
    error: Problem | None = None  # why it ended before the stream did


class StreamRefusal(Given, frozen=True, kw_only=True):
    line: int
    error: Problem


_decode_plain = msgspec.json.Decoder(Items[PlainJobShape]).decode
_AROUND = 3  # levels that a payload of the list is in
_TROUBLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def jobs_in(body: bytes, encoding: Encoding) -> list[PreparedJob]:
    """What is wrong with a list is told by the shapes of its jobs, also where these are plain."""
    found = _plain_jobs(body) if encoding is Codec.JSON else None
    if found is not None:
        return found
    return [item.filled(encoding) for item in decode(body, Items[NewJobShape], encoding).items]


def _plain_jobs(body: bytes) -> list[PreparedJob] | None:
    try:
        if not body.isascii():
            body.decode()  # payloads are not looked into by the decoder
        items: list[PlainJobShape] = _decode_plain(body).items
    except _TROUBLE:
        return None
    jobs = [
        PreparedJob(
            plain_form(one.queue, one.name),
            NULL_BLOB if one.payload is UNSET else Blob(bytes(one.payload), Codec.JSON),
        )
        for one in items
    ]
    if max([len(job.payload.data) for job in jobs], default=0) > NESTING_MAX - _AROUND:
        check_depth(body, Codec.JSON)
    return jobs


def all_accepted(answers: Sequence[Enqueued | Refusal]) -> TypeGuard[Sequence[Enqueued]]:
    kinds: set[type[Any]] = set(map(type, answers))
    return kinds == {Enqueued}


def written(answers: Sequence[Enqueued]) -> bytes:
    """Results of EnqueuedShapes, in JSON."""
    items = [
        f'{{"ok":{{"id":"{format_id(one.id)}","status":"{one.status}","revision":{one.revision},'
        f'"is_durable":{"true" if one.is_durable else "false"}}}}}'
        for one in answers
    ]
    return f'{{"results":[{",".join(items)}]}}'.encode()
