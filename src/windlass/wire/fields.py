"""Field types that several shapes share."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

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
FlowId: TypeAlias = Annotated[
    str, Meta(description="The id of a flow, a UUID.", examples=["01890a5d-ac96-774b-bcce-b302099a8058"])
]
QueueName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=QUEUE_MAX, examples=["mail"])]
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=NAME_MAX, examples=["send"])]
Instant: TypeAlias = Annotated[int, Meta(ge=0, le=INSTANT_MAX, description="Milliseconds since 1970, UTC.")]
Duration: TypeAlias = Annotated[int, Meta(ge=0, le=DURATION_MAX, description="Milliseconds.")]
# FOREVER_MS is larger than any duration.
DurationOrForever: TypeAlias = Annotated[
    int, Meta(ge=0, le=FOREVER_MS, description=f"Milliseconds; {FOREVER_MS}: for ever.")
]
Priority: TypeAlias = Annotated[int, Meta(ge=INT32_MIN, le=INT32_MAX, description="Smaller values run first.")]
LeaseToken: TypeAlias = Annotated[
    int, Meta(ge=0, lt=2**48, description="The token of the lease; 0: any lease of the job.")
]
WAIT_MAX_MS = 60_000  # of one long poll; proxies cut longer polls
StateName: TypeAlias = Literal[
    "scheduled", "queued", "waiting", "suspended", "dispatched", "running", "finished", "failed", "cancelled"
]
Cursor: TypeAlias = Annotated[
    str, Meta(max_length=CURSOR_MAX, description="The cursor of the previous page; empty: the first page.")
]
PageSize: TypeAlias = Annotated[int, Meta(ge=1, le=PAGE_MAX, description="The largest number of items on this page.")]


def format_optional_id(job_id: bytes | None) -> str | None:
    return None if job_id is None else format_id(job_id)
