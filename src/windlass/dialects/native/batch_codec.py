"""Long lists of jobs, read and answered with little for each of them. What comes out is what the shapes would make of
the same (producing.py); whatever is not as most jobs are is left to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

import msgspec
from msgspec import UNSET

from windlass.core.errors import Refusal
from windlass.core.ids import format_id
from windlass.core.job import NOTHING, Blob, Codec
from windlass.core.job_template import Filled
from windlass.core.operations import Enqueued
from windlass.web.app.encoding import NESTING_MAX, Encoding, check_depth, decode

from .shapes import Items, NewJobShape, PlainJobShape, plain_form

_decode_plain = msgspec.json.Decoder(Items[PlainJobShape]).decode
_AROUND = 3  # levels that a payload of the list is in
_TROUBLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def jobs_in(body: bytes, encoding: Encoding) -> list[Filled]:
    """What is wrong with a list is told by the shapes of its jobs, also where these are plain."""
    found = _plain_jobs(body) if encoding is Codec.JSON else None
    if found is not None:
        return found
    return [item.filled(encoding) for item in decode(body, Items[NewJobShape], encoding).items]


def _plain_jobs(body: bytes) -> list[Filled] | None:
    try:
        if not body.isascii():
            body.decode()  # payloads are not looked into by the decoder
        items: list[PlainJobShape] = _decode_plain(body).items
    except _TROUBLE:
        return None
    jobs = [
        Filled(
            plain_form(one.queue, one.name),
            NOTHING if one.payload is UNSET else Blob(bytes(one.payload), Codec.JSON),
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
