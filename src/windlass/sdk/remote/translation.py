"""Conversion between the shapes of the native API and the types of the core, as a client needs it."""

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

from .request import refusal_of
from .store import not_offered

A = TypeVar("A")
T = TypeVar("T")
VALUE_NESTING_MAX = 90  # a body may have 100 levels, and values are some levels deep in it
_CODECS = {"json": Codec.JSON, "msgpack": Codec.MSGPACK, "raw": Codec.RAW}
_NAMES = {codec: name for name, codec in _CODECS.items()}
_STATES = {state.label: state for state in State}


def copy_fields(source: msgspec.Struct, target: Any) -> Any:
    """Make a struct of another type from one that has the same fields."""
    return target(**{name: getattr(source, name) for name in target.__struct_fields__})


def value_fields(what: str, blob: Blob | None) -> dict[str, Any]:
    """Return the fields of a stored value: the value itself if it is MessagePack, else base64."""
    if blob is None:
        return {}
    if blob.codec is Codec.MSGPACK and not is_too_deep(blob.data, blob.codec, VALUE_NESTING_MAX):
        value = as_msgpack(blob)
        if value is not None:
            return {what: value}
    return {f"{what}_base64": base64.b64encode(blob.data).decode(), f"{what}_codec": _NAMES[blob.codec]}


def blob_of(value: Raw | UnsetType, in_base64: str | UnsetType, codec: str | UnsetType) -> Blob | None:
    """Return the stored value of such fields. A plain value is MessagePack, the encoding of all responses."""
    if in_base64 is not UNSET:
        return Blob(base64.b64decode(in_base64), Codec.RAW if codec is UNSET else _CODECS[codec])
    return None if value is UNSET else Blob(bytes(value), Codec.MSGPACK)


_CONVERTED_FIELDS = (
    "payload",
    "payload_base64",
    "payload_codec",
    "id",
    "retry",
    "parent",
    "after",
    "callback",
    "cap",
    "flow",
)
_COPIED_FIELDS = tuple(name for name in NewJobShape.__struct_fields__ if name not in _CONVERTED_FIELDS)


def new_job_shape(job_id: bytes, job: NewJob) -> NewJobShape:
    return NewJobShape(
        id=format_id(job_id) if job_id else None,
        retry=RetryShape(**msgspec.structs.asdict(job.retry)),
        parent=format_optional_id(job.parent or None),
        after=tuple(map(format_id, job.after)),
        callback=None if job.callback is None else _callback_shape(job.callback),
        cap=new_job.cap_shape(job.cap),
        flow=new_job.flow_ref_shape(job.flow),
        **value_fields("payload", None if job.payload == NULL_BLOB else job.payload),
        **{name: getattr(job, name) for name in _COPIED_FIELDS},
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


_CONVERTED_JOB_FIELDS = (
    "id",
    "state",
    "payload",
    "payload_base64",
    "payload_codec",
    "retry",
    "parent",
    "callback",
    "flow",
    "worker",
)
_COPIED_JOB_FIELDS = tuple(name for name in JobShape.__struct_fields__ if name not in _CONVERTED_JOB_FIELDS)


def job_of(shape: JobShape) -> Job:
    return Job(
        id=parse_id(shape.id),
        state=state_of(shape.state),
        payload=blob_of(shape.payload, shape.payload_base64, shape.payload_codec) or NULL_BLOB,
        sequence=0,
        retry=Backoff(**msgspec.structs.asdict(shape.retry)),
        parent=id_of(shape.parent),
        callback=callback_of(shape.callback),
        flow=new_job.flow_ref_of(shape.flow),
        limits=(),
        worker=id_of(shape.worker),
        **{name: getattr(shape, name) for name in _COPIED_JOB_FIELDS},
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
    return Timeline(job_of(shape.job), [attempt_of(attempt) for attempt in shape.attempts])


def read_results(response: Results[A], count: int, convert: Callable[[A], T]) -> list[T | Refusal]:
    """Convert the results of a batch of `count` items. Problems become refusals."""
    return read_items(response.results, count, convert)


def read_items(items: Sequence[Any], count: int, convert: Callable[[Any], T]) -> list[T | Refusal]:
    if len(items) != count:
        raise ValueError(f"{len(items)} results for {count} items")
    return [convert(item.ok) if item.error is UNSET else refusal_of(item.error) for item in items]
