"""Shape of a job to enqueue, with its retry policy and callback."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from windlass.core.ids import format_id, parse_id
from windlass.core.job import ENDS, NULL_BLOB, Blob, Callback, Cap, End, FlowRef, NewJob, OnFailure, UniqueCheck
from windlass.core.job_template import JobTemplate, PreparedJob, prepare_single
from windlass.core.limits.payload_index import INDEX_FIELDS_MAX
from windlass.core.retry import ENDLESS, Backoff
from windlass.core.validation.bounds import (
    AFTER_MAX,
    FLOW_NAME_MAX,
    LANE_MAX,
    PAUSE_MAX,
    TAGS_MAX,
    TRACE_MAX,
    UINT32_MAX,
    UNIQUE_MAX,
)
from windlass.core.validation.callbacks import TYPE_MAX
from windlass.core.validation.limits import CAP_NOTE_MAX, LIMIT_NAME_MAX

from .encoding import Encoding
from .fields import Duration, DurationOrForever, FlowId, Id, Instant, Name, Priority, QueueName
from .shape import RequestShape
from .values import CodecName, Value, decode_payload

TEMPLATES_MAX = 1024  # in the cache of each server process


class RetryShape(RequestShape, frozen=True, kw_only=True):
    """Number of attempts, and the growing pauses between them."""

    tries: Annotated[int, Meta(ge=0, le=UINT32_MAX, description="Attempts in all; 0: no limit.")] = 3
    base_ms: Annotated[int, Meta(ge=0, le=PAUSE_MAX)] = 1_000
    factor: Annotated[float, Meta(ge=1, le=1000)] = 2.0
    cap_ms: Annotated[int, Meta(ge=0, le=PAUSE_MAX)] = 600_000
    jitter: Annotated[float, Meta(ge=0, le=1)] = 0.1


class CallbackShape(RequestShape, frozen=True, kw_only=True):
    """A notification to send when the job ends."""

    url: Annotated[str, Meta(description="An http or https URL; empty if `type` and `destination` are given.")] = ""
    type: Annotated[str, Meta(description="Another kind of delivery, e.g. `kafka`.", max_length=TYPE_MAX)] = ""
    destination: Annotated[str, Meta(description="The destination for `type`, e.g. a topic.")] = ""
    events: tuple[End, ...] = ENDS
    headers: dict[str, str] = msgspec.field(default_factory=dict)


def callback_of(shape: CallbackShape) -> Callback:
    return Callback(
        url=shape.url,
        type=shape.type,
        destination=shape.destination,
        events=shape.events,
        headers=tuple(shape.headers.items()),
    )


def callback_shape(callback: Callback) -> CallbackShape:
    return CallbackShape(
        url=callback.url,
        type=callback.type,
        destination=callback.destination,
        events=callback.events,
        headers=dict(callback.headers),
    )


class CapShape(RequestShape, frozen=True, kw_only=True):
    """Cap of the job's key under a limit with `own_caps`, unless the key has one already. It needs the role admin, for
    all queues."""

    limit: Annotated[
        str, Meta(min_length=1, max_length=LIMIT_NAME_MAX, description="Name of the limit.", examples=["per shop"])
    ]
    running: Annotated[int, Meta(ge=1, le=UINT32_MAX, description="Jobs of the key that may run at once.")]
    note: Annotated[str, Meta(max_length=CAP_NOTE_MAX, description="Kept for the workers of the key's jobs.")] = ""


def cap_of(shape: CapShape | None) -> Cap | None:
    return None if shape is None else Cap(limit=shape.limit, running=shape.running, note=shape.note)


def cap_shape(cap: Cap | None) -> CapShape | None:
    return None if cap is None else CapShape(limit=cap.limit, running=cap.running, note=cap.note)


class FlowRefShape(RequestShape, frozen=True, kw_only=True):
    """Place of a job in a flow. The jobs of a flow are enqueued together, by POST /jobs:whole."""

    id: FlowId
    name: Annotated[str, Meta(max_length=FLOW_NAME_MAX, description="Name of the flow.", examples=["checkout"])] = ""
    step: Annotated[
        str, Meta(max_length=FLOW_NAME_MAX, description="Name of the job in the flow.", examples=["pay"])
    ] = ""


def flow_ref_of(shape: FlowRefShape | None) -> FlowRef | None:
    return None if shape is None else FlowRef(parse_id(shape.id), shape.name, shape.step)


def flow_ref_shape(flow: FlowRef | None) -> FlowRefShape | None:
    return None if flow is None else FlowRefShape(id=format_id(flow.id), name=flow.name, step=flow.step)


_CONVERTED_NAMES = ("id", "retry", "parent", "after", "callback", "cap")
_CONVERTED_FIELDS = [NewJob.__struct_fields__.index(name) for name in _CONVERTED_NAMES]
_ID, _RETRY, _PARENT, _AFTER, _CALLBACK, _CAP = _CONVERTED_FIELDS
_pick_converted = itemgetter(*_CONVERTED_FIELDS)


class NewJobShape(RequestShape, frozen=True, kw_only=True, gc=False):
    """A job to enqueue. Only `queue` and `name` are required."""

    queue: QueueName
    name: Name
    payload: Value | UnsetType = UNSET
    payload_base64: str | UnsetType = UNSET
    payload_codec: CodecName | UnsetType = UNSET
    id: Id | None = None
    priority: Priority = 0
    run_at_ms: Instant = 0
    delay_ms: Duration = 0
    expires_at_ms: Instant = 0
    expires_in_ms: Duration = 0
    lane: Annotated[str, Meta(max_length=LANE_MAX)] = ""
    unique: Annotated[str, Meta(max_length=UNIQUE_MAX)] = ""
    unique_check: UniqueCheck = "keep"
    unique_while_kept: bool = False
    debounce_ms: Duration = 0
    debounce_max_ms: Duration = 0
    throttle_ms: Duration = 0
    if_revision: Annotated[int, Meta(ge=0, le=UINT32_MAX)] = 0
    retry: RetryShape | None = None
    lease_ms: DurationOrForever = 0
    lease_rule: str = ""
    retake: bool = False
    hidden: bool = False
    timeout_ms: Duration = 0
    result_ttl_ms: DurationOrForever = 0
    tags: Annotated[tuple[str, ...], Meta(max_length=TAGS_MAX)] = ()
    index: Annotated[
        tuple[str, ...],
        Meta(
            max_length=INDEX_FIELDS_MAX,
            description="Payload fields that `where` searches, as `customer.email`, besides those of the queue.",
        ),
    ] = ()
    trace: Annotated[str, Meta(max_length=TRACE_MAX)] = ""
    repeat: str = ""
    parent: Id | None = None
    held: bool = False
    after: Annotated[tuple[Id, ...], Meta(max_length=AFTER_MAX)] = ()
    joins: bool = False
    on_failure: OnFailure | Literal[""] = ""
    callback: CallbackShape | None = None
    cap: CapShape | None = None
    flow: FlowRefShape | None = None

    def new_job(self, encoding: Encoding) -> NewJob:
        return _new_job(self._payload(encoding), self._fields())

    def prepare(self, encoding: Encoding) -> PreparedJob:
        """Convert to a prepared job. Jobs that differ only in their payloads share a cached template."""
        if self.id is not None or self.unique or self.after or self.callback is not None or self.flow is not None:
            return prepare_single(self.new_job(encoding))  # no other job has these fields
        payload = self._payload(encoding)
        return PreparedJob(_template(self._fields()), payload)

    def _payload(self, encoding: Encoding) -> Blob:
        if self.payload is UNSET and self.payload_base64 is UNSET and self.payload_codec is UNSET:
            return NULL_BLOB
        return decode_payload(self.payload, self.payload_base64, self.payload_codec, encoding)

    def _fields(self) -> tuple[Any, ...]:
        """Return the fields of NewJob without the payload, in the order of NewJob; the flow is the last."""
        fields = msgspec.structs.astuple(self)
        return fields[:2] + fields[5:]


def _new_job(payload: Blob, fields: Sequence[Any]) -> NewJob:
    queue, name, *others, flow = fields
    values = [queue, name, payload, *others]
    job_id, retry, parent, after, callback, cap = _pick_converted(values)
    values[_ID] = b"" if job_id is None else parse_id(job_id)
    values[_RETRY] = ENDLESS if retry is None else Backoff(*msgspec.structs.astuple(retry))
    values[_PARENT] = b"" if parent is None else parse_id(parent)
    values[_AFTER] = tuple(map(parse_id, after))
    values[_CALLBACK] = None if callback is None else callback_of(callback)
    values[_CAP] = cap_of(cap)
    return NewJob(*values, flow=flow_ref_of(flow))  # type: ignore[misc]  # the values end before it


@lru_cache(TEMPLATES_MAX)
def _template(fields: tuple[Any, ...]) -> JobTemplate:
    return JobTemplate(_new_job(NULL_BLOB, fields))


class SimpleJobShape(RequestShape, frozen=True, kw_only=True, gc=False):
    """A job with only the common fields. Long lists of such jobs decode in half the time."""

    queue: QueueName
    name: Name
    payload: Value | UnsetType = UNSET


@lru_cache(TEMPLATES_MAX)
def simple_template(queue: str, name: str) -> JobTemplate:
    """Return the template that the same job has as a NewJobShape."""
    return _template(NewJobShape(queue=queue, name=name)._fields())
