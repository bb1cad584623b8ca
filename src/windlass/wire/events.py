"""Shapes of the event streams."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, UnsetType

from windlass.core.validation.bounds import POSITION_MAX, QUEUE_MAX

from .fields import Id, StateName
from .shape import RequestShape, ResponseShape
from .values import CodecName, Value

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
        "snapshot", "missed", "scheduled", "queued", "waiting", "dispatched", "running", "finished", "failed",
        "cancelled", "deleted", "progress", "emitted",
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
