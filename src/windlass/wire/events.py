"""Shapes of the event streams."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, UnsetType

from windlass.core.event import Event
from windlass.core.ids import format_id
from windlass.core.job import Codec, Job
from windlass.core.validation.bounds import POSITION_MAX, QUEUE_MAX

from .fields import Id, StateName
from .shape import RequestShape, ResponseShape
from .values import CodecName, Value, encode_bytes, encode_value

Position: TypeAlias = Annotated[
    str,
    Meta(
        max_length=POSITION_MAX,
        description="Resume after the event with this `id`; empty: from now. The header Last-Event-ID has precedence.",
    ),
]
Values: TypeAlias = Annotated[
    Literal["plain", "base64"],
    Meta(description="`plain`: emitted values as JSON where possible. `base64`: the exact bytes of all values."),
]


class EventsQuery(RequestShape, frozen=True, kw_only=True):
    queue: Annotated[str, Meta(max_length=QUEUE_MAX, description="Only events of this queue.")] = ""
    position: Position = ""
    values: Values = "plain"


class JobEventsQuery(RequestShape, frozen=True, kw_only=True):
    position: Position = ""
    values: Values = "plain"


class EventShape(ResponseShape, frozen=True, kw_only=True):
    """The data of an event, as JSON. Its `event` is the kind, its `id` the position. `snapshot`: the current state of
    the job, first in the stream of a job. `missed`: the number of events that this client lost; null: unknown."""

    kind: Literal[
        "snapshot", "missed", "scheduled", "queued", "waiting", "suspended", "dispatched", "running", "finished",
        "failed", "cancelled", "deleted", "progress", "emitted", "streamed", "logged",
    ]  # fmt: skip
    job: Id | UnsetType = UNSET
    queue: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    state: StateName | UnsetType = UNSET  # the state that the job entered; in a snapshot: its current state
    at_ms: int | UnsetType = UNSET
    attempt: int | UnsetType = UNSET
    progress: float | UnsetType = UNSET
    note: str | UnsetType = UNSET
    value: Value | UnsetType = UNSET
    value_base64: str | UnsetType = UNSET
    value_codec: CodecName | UnsetType = UNSET
    missed: int | UnsetType | None = UNSET


def event_shape(event: Event, values: str) -> EventShape:
    """Convert an event of a job. `values`: how to encode an emitted value, as in the query."""
    value = encode_bytes(event.value) if event.value and values == "base64" else encode_value(event.value, Codec.JSON)
    state = event.kind.state
    return EventShape(
        kind=event.kind.label,  # type: ignore[arg-type]
        job=format_id(event.job),
        queue=event.queue,
        name=event.name,
        state=UNSET if state is None else state.label,  # type: ignore[arg-type]
        at_ms=event.at_ms,
        attempt=event.attempt,
        progress=event.progress,
        note=event.note or UNSET,
        value=value.value,
        value_base64=value.base64,
        value_codec=value.codec,
    )


def missed_shape(event: Event, count: int | None) -> EventShape:
    return EventShape(kind="missed", at_ms=event.at_ms or UNSET, missed=count)


def snapshot_shape(job: Job) -> EventShape:
    return EventShape(
        kind="snapshot",
        job=format_id(job.id),
        queue=job.queue,
        name=job.name,
        state=job.state.label,  # type: ignore[arg-type]
        attempt=job.attempt,
        progress=job.progress,
        note=job.note or UNSET,
    )
