"""Field types and base classes that the shapes of the native API share."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from windlass.core.ids import format_id
from windlass.core.queue import FOREVER_MS
from windlass.core.text.durations import INSTANT_MAX
from windlass.core.validation.bounds import (
    CURSOR_MAX,
    DURATION_MAX,
    INT32_MAX,
    INT32_MIN,
    NAME_MAX,
    PAGE_MAX,
    QUEUE_MAX,
)

Id: TypeAlias = Annotated[
    str, Meta(description="The id of a job, a UUID.", examples=["01890a5d-ac96-774b-bcce-b302099a8057"])
]
QueueName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=QUEUE_MAX, examples=["mail"])]
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=NAME_MAX, examples=["send"])]
Instant: TypeAlias = Annotated[int, Meta(ge=0, le=INSTANT_MAX, description="Milliseconds since 1970, UTC.")]
Duration: TypeAlias = Annotated[int, Meta(ge=0, le=DURATION_MAX, description="Milliseconds.")]
# Beyond all durations there is one value that means for ever.
Term: TypeAlias = Annotated[int, Meta(ge=0, le=FOREVER_MS, description=f"Milliseconds; {FOREVER_MS}: for ever.")]
Priority: TypeAlias = Annotated[int, Meta(ge=INT32_MIN, le=INT32_MAX, description="Smaller first.")]
Token: TypeAlias = Annotated[int, Meta(ge=0, lt=2**48, description="Of the lease; 0: of whoever holds the job.")]
WAIT_MAX_MS = 60_000
StateName: TypeAlias = Literal[
    "scheduled", "queued", "waiting", "dispatched", "running", "finished", "failed", "cancelled"
]
Cursor: TypeAlias = Annotated[
    str, Meta(max_length=CURSOR_MAX, description="Of the page before; empty: from the start.")
]
Most: TypeAlias = Annotated[int, Meta(ge=1, le=PAGE_MAX, description="On this page.")]


class Shape(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a caller may give: nothing that we would not look at."""


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """What we answer."""


G = TypeVar("G", bound=Given)


def shaped(found: msgspec.Struct, shape: type[G]) -> G:
    """A shape with the fields of what was found, under the same names."""
    return msgspec.convert(found, shape, from_attributes=True)


def id_or_none(job_id: bytes | None) -> str | None:
    return None if job_id is None else format_id(job_id)
