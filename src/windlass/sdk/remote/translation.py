"""Between what the service speaks of and what the native API writes: jobs, values, attempts."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from windlass.core.errors import Refusal
from windlass.core.ids import format_id, parse_id
from windlass.core.job import NULL_BLOB, Attempt, Blob, Callback, Codec, Job, NewJob, Timeline
from windlass.core.retry import Backoff
from windlass.core.states import State
from windlass.core.text.codecs import as_msgpack
from windlass.core.validation.document_depth import is_too_deep
from windlass.wire import new_job
from windlass.wire.fields import format_optional_id
from windlass.wire.jobs import AttemptShape, JobShape, TimelineShape
from windlass.wire.new_job import CallbackShape, NewJobShape, RetryShape
from windlass.wire.shape import Results

from .request import refused
from .store import not_offered

A = TypeVar("A")
T = TypeVar("T")
DEEPEST = 90  # a body may be nested in 100 levels, and values stand some levels deep in it
_CODECS = {"json": Codec.JSON, "msgpack": Codec.MSGPACK, "raw": Codec.RAW}
_NAMES = {codec: name for name, codec in _CODECS.items()}
_STATES = {state.label: state for state in State}


# Values


def value_fields(what: str, blob: Blob | None) -> dict[str, Any]:
    """As itself where it is MessagePack; else byte for byte."""
    if blob is None:
        return {}
    if blob.codec is Codec.MSGPACK and not is_too_deep(blob.data, blob.codec, DEEPEST):
        value = as_msgpack(blob)
        if value is not None:
            return {what: value}
    return {f"{what}_base64": base64.b64encode(blob.data).decode(), f"{what}_codec": _NAMES[blob.codec]}


def blob_of(value: Raw | UnsetType, in_base64: str | UnsetType, codec: str | UnsetType) -> Blob | None:
    """A plain value is MessagePack here, whatever it is stored as."""
    if in_base64 is not UNSET:
        return Blob(base64.b64decode(in_base64), Codec.RAW if codec is UNSET else _CODECS[codec])
    return None if value is UNSET else Blob(bytes(value), Codec.MSGPACK)


# Jobs

_SAME = tuple(
    name
    for name in NewJobShape.__struct_fields__
    if name not in ("payload", "payload_base64", "payload_codec", "id", "retry", "parent", "after", "callback")
)


def new_job_shape(job_id: bytes, job: NewJob) -> NewJobShape:
    return NewJobShape(
        id=format_id(job_id) if job_id else None,
        retry=RetryShape(**msgspec.structs.asdict(job.retry)),
        parent=format_optional_id(job.parent or None),
        after=tuple(map(format_id, job.after)),
        callback=None if job.callback is None else _callback_shape(job.callback),
        **value_fields("payload", None if job.payload == NULL_BLOB else job.payload),
        **{name: getattr(job, name) for name in _SAME},
    )


def _callback_shape(callback: Callback) -> CallbackShape:
    if callback.data is not None:
        raise not_offered("`data` of a callback")
    return new_job.callback_shape(callback)


def callback_of(shape: CallbackShape | None) -> Callback | None:
    return None if shape is None else new_job.callback_of(shape)


def state_of(label: str) -> State:
    return _STATES[label]


def id_of(text: str | None) -> bytes | None:
    return None if text is None else parse_id(text)


_OWN = ("id", "state", "payload", "payload_base64", "payload_codec", "retry", "parent", "callback", "worker")
_READ = tuple(name for name in JobShape.__struct_fields__ if name not in _OWN)


def job_of(shape: JobShape) -> Job:
    return Job(
        id=parse_id(shape.id),
        state=state_of(shape.state),
        payload=blob_of(shape.payload, shape.payload_base64, shape.payload_codec) or NULL_BLOB,
        sequence=0,
        retry=Backoff(**msgspec.structs.asdict(shape.retry)),
        parent=id_of(shape.parent),
        callback=callback_of(shape.callback),
        limits=(),
        worker=id_of(shape.worker),
        **{name: getattr(shape, name) for name in _READ},
    )


def attempt_of(shape: AttemptShape) -> Attempt:
    return Attempt(
        attempt=shape.attempt,
        started_at_ms=shape.started_at_ms,
        ended_at_ms=shape.ended_at_ms,
        worker=id_of(shape.worker),
        reason=shape.reason,
        error=blob_of(shape.error, shape.error_base64, shape.error_codec),
    )


def timeline_of(shape: TimelineShape) -> Timeline:
    return Timeline(job_of(shape.job), [attempt_of(one) for one in shape.attempts])


# Answers about many


def answers_of(found: Results[A], read: Callable[[A], T]) -> list[T | Refusal]:
    return outcomes_of(found.results, read)


def outcomes_of(found: Sequence[Any], read: Callable[[Any], T]) -> list[T | Refusal]:
    return [read(one.ok) if one.error is UNSET else refused(one.error) for one in found]
