"""Shapes of the event streams."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, UnsetType

from windlass.core.validation.bounds import POSITION_MAX, QUEUE_MAX

from .fields import Given, Id, Shape, StateName
from .values import CodecName, Value

Position: TypeAlias = Annotated[
    str,
    Meta(
        max_length=POSITION_MAX,
        description="Go on behind this event (its `id`); empty: from now. The header Last-Event-ID has precedence.",
    ),
]
Values: TypeAlias = Annotated[
    Literal["plain", "base64"],
    Meta(description="Emitted values as JSON where they can be, or all of them byte for byte."),
]


class EventsQuery(Shape, frozen=True, kw_only=True):
    queue: Annotated[str, Meta(max_length=QUEUE_MAX, description="Only of this one.")] = ""
    position: Position = ""
    values: Values = "plain"


class JobEventsQuery(Shape, frozen=True, kw_only=True):
    position: Position = ""
    values: Values = "plain"


class EventShape(Given, frozen=True, kw_only=True):
    """The data of an event, as JSON; its `event` is the kind, its `id` the position. `snapshot`: the job as it is,
    first in a stream about one. `missed`: so many events are lost to this follower; null: nobody knows how many."""

    kind: Literal[
        "snapshot", "missed", "scheduled", "queued", "waiting", "dispatched", "running", "finished", "failed",
        "cancelled", "deleted", "progress", "emitted",
    ]  # fmt: skip
    job: Id | UnsetType = UNSET
    queue: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    state: StateName | UnsetType = UNSET  # that it has entered, or of a snapshot: is in
    at_ms: int | UnsetType = UNSET
    attempt: int | UnsetType = UNSET
    progress: float | UnsetType = UNSET
    note: str | UnsetType = UNSET
    value: Value | UnsetType = UNSET
    value_base64: str | UnsetType = UNSET
    value_codec: CodecName | UnsetType = UNSET
    missed: int | UnsetType | None = UNSET
