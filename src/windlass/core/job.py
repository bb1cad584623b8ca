"""Jobs: the request to enqueue one, its stored form, and its outcome."""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Literal, TypeAlias

import msgspec

from .ids import format_id
from .retry import ENDLESS, Backoff
from .states import State


class Codec(IntEnum):
    """Encoding of payloads, results and errors. The engine never decodes them."""

    JSON = 0
    MSGPACK = 1
    RAW = 2


class Flag(IntFlag):
    """Bits of the stored record. The two lowest bits are the payload's codec."""

    MSGPACK = 1
    RAW = 2
    CANCEL_REQUESTED = 4
    AWAITED = 8  # a caller waits for its end
    NAME_LANE = 16  # its lane is divided by name
    RETAKE = 32  # an overdue lease makes it takeable, but the old holder may still report
    RETAKEABLE = 64  # running, overdue, and in its lane
    UNIQUE_WHILE_KEPT = 128  # holds its unique key as long as its record is kept
    HIDDEN = 256  # only for takers that ask for hidden jobs
    HAS_OUTCOME = 512
    HAS_ATTEMPTS = 1024
    IN_HISTORY = 2048  # kept only for inspection
    HELD = 4096  # a child that waits until its parent hands over
    HAS_MEMBERS = 8192  # it has children, or waits for dependencies
    HAS_DEPENDENTS = 16384  # other jobs wait for its end
    JOINS = 32768  # ends by itself when its members have ended
    REPEATS = 65536  # runs again after success, by its repeat rule
    HAS_CALLBACK = 131072  # a callback is sent when it ends
    OWES_FINISHED = 262144  # ... when it ends as finished
    OWES_FAILED = 524288  # ... as failed
    OWES_CANCELLED = 1048576  # ... as cancelled
    ODD_ROUND = 2097152  # parity of its number of hand-overs so far; it marks the ends of its members
    HAS_LOGS = 4194304
    HAS_NOTE = 8388608  # the extras end with space for a note
    WHOLE_SECONDS = 16777216  # its leases end on whole seconds, rounded down
    HAS_NUMBER = 33554432  # a number was assigned to it later, see numbers.lua
    DISPATCH_COUNTS = 67108864  # its last dispatch has spent an attempt, accepted or not
    LEAVES_TOMBSTONE = 134217728  # its id is remembered after its record; the policy has six more bytes
    AWAITS_ONLY = 268435456  # all its members are jobs that it waits for; none is its child
    ENDED_BY_MEMBER = 536870912  # it ended because of a member, and waits again when that member is retried
    DURABLE = 1073741824  # it has steps, signals or a stream (lua/lib/durable)
    NEEDS_STEPS = 2147483648  # it has stored steps: only for takers that know them


class Blob(msgspec.Struct, frozen=True, gc=False):
    """Opaque bytes and their codec."""

    data: bytes
    codec: Codec = Codec.JSON


NULL_BLOB = Blob(b"null")
OnFailure: TypeAlias = Literal["collect", "fail", "ignore"]
UniqueCheck: TypeAlias = Literal["none", "keep", "replace", "refuse"]
Durability: TypeAlias = Literal["memory", "fsync", "replica"]
End: TypeAlias = Literal["finished", "failed", "cancelled"]
ENDS: tuple[End, ...] = ("finished", "failed", "cancelled")


class Callback(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A callback that a producer requests for the end of a job."""

    url: str = ""  # http or https
    type: str = ""  # instead of a URL: the delivery backend, e.g. `kafka`; checked only at delivery
    destination: str = ""  # ... and its destination, in the format of that backend
    events: tuple[End, ...] = ENDS  # the ends that send the callback
    headers: tuple[tuple[str, str], ...] = ()
    data: Blob | None = None  # for the delivery backend; the engine never decodes it


class Cap(msgspec.Struct, frozen=True, kw_only=True):
    """Number of jobs of a key that may run at once, under a limit with `own_caps`.

    The first job of a key that has a cap sets it. It applies until the key has had no jobs for a while; the caps of
    later jobs are ignored.
    """

    limit: str  # name of the limit
    running: int
    note: str = ""  # stored with the cap, for the workers of the key's jobs


class FlowRef(msgspec.Struct, frozen=True, gc=False):
    """Place of a job in a flow."""

    id: bytes  # of the flow, 16 bytes; its partition is that of the job's queue
    name: str = ""  # of the flow
    step: str = ""  # name of the job in the flow


class NewJob(msgspec.Struct, frozen=True, gc=False):
    """A job to enqueue. Only `queue` and `name` are required. Pass the others by keyword: their order may change."""

    queue: str
    name: str
    payload: Blob = NULL_BLOB
    id: bytes = b""  # 16 bytes; made by the store when empty
    priority: int = 0  # int32, smaller first
    run_at_ms: int = 0  # 0: now
    delay_ms: int = 0  # from now; instead of run_at_ms
    expires_at_ms: int = 0  # if it has not started by then, it fails with reason `expired`
    expires_in_ms: int = 0  # from now; instead of expires_at_ms
    lane: str = ""  # jobs of a lane are taken in order
    unique: str = ""  # unique key, within the queue
    unique_check: UniqueCheck = "keep"  # what to do when another job holds the key
    unique_while_kept: bool = False  # hold the key until the record is removed, not only until the end
    debounce_ms: int = 0  # with a unique key: run after this time without further calls, with the last call's content
    debounce_max_ms: int = 0  # but at most this long after the first call; 0: no bound
    throttle_ms: int = 0  # with a unique key: accept only the first call within such a period
    if_revision: int = 0  # with `replace`: only when the existing job has this revision
    retry: Backoff = ENDLESS  # number of attempts, and the delays between them
    lease_ms: int = 0  # 0: the queue's
    lease_rule: str = ""  # the lease as date modifiers, for dialects that show it; it then ends on whole seconds
    retake: bool = False  # see Flag.RETAKE
    hidden: bool = False  # only for takers that ask for hidden jobs
    timeout_ms: int = 0  # maximum execution time; 0: none
    result_ttl_ms: int = 0  # how long the result is kept; 0: not at all
    tags: tuple[str, ...] = ()
    index: tuple[str, ...] = ()  # paths of payload fields that find the job, besides those of its queue
    trace: str = ""  # W3C traceparent, passed to the worker
    repeat: str = ""  # rule for the next run after success, see core/scheduling/repeat.py
    parent: bytes = b""  # id of the job's parent
    held: bool = False  # a child that waits until its parent hands over
    after: tuple[bytes, ...] = ()  # ids of jobs that must end before this job starts
    joins: bool = False  # a group: never taken; it ends by itself when its members have ended
    on_failure: OnFailure | Literal[""] = (
        ""  # effect of a failed member; "": `fail` with after or joins, else `collect`
    )
    callback: Callback | None = None  # sent when it ends
    cap: Cap | None = None  # for its key under a limit, unless the key has a cap
    tombstone_ms: int = 0  # how long its id is remembered after it finished or failed and was removed; 0: not at all
    flow: FlowRef | None = None  # the flow that it belongs to


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that did not succeed."""

    attempt: int
    started_at_ms: int | None
    ended_at_ms: int
    worker: bytes | None
    reason: str
    error: Blob | None


class Job(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A stored job, read at one instant."""

    id: bytes
    state: State
    queue: str
    name: str
    payload: Blob
    payload_is_whole: bool  # pages carry only the beginning of a long payload
    priority: int
    sequence: int
    created_at_ms: int
    run_at_ms: int
    started_at_ms: int | None
    ended_at_ms: int | None
    expires_at_ms: int | None
    lane: str
    unique: str | None
    retry: Backoff
    lease_ms: int
    lease_rule: str = ""  # the lease as date modifiers, if it was given so
    retake: bool = False
    is_hidden: bool = False  # only for takers that ask for hidden jobs
    timeout_ms: int
    result_ttl_ms: int
    tombstone_ms: int = 0  # how long its id is remembered after its record was removed
    tags: tuple[str, ...]
    index: tuple[str, ...] = ()  # paths of payload fields that its producer indexes
    indexed: tuple[str, ...] = ()  # its entries in the index over payload fields, see core/limits/payload_index.py
    trace: str
    repeat: str  # repeat rule as written; empty: it runs once
    schedule: str  # name of the schedule that created it; empty: none
    planned_at_ms: int | None  # planned instant of a job that repeats or comes from a schedule
    parent: bytes | None
    is_held: bool  # waits until its parent hands over
    joins: bool
    has_members: bool  # it has children, or waits for other jobs
    on_failure: OnFailure
    flow: FlowRef | None = None
    is_consequence: bool = False  # it ended because a job that it waited for failed or was cancelled
    callback: Callback | None
    limits: tuple[str, ...]  # limit keys that it counts against
    attempt: int  # number of leases, without those given back
    revision: int  # grows with each change of content
    progress: float  # 0..1
    note: str = ""  # last note of its holder in this attempt
    is_cancel_requested: bool
    is_overdue: bool  # its lease expired and another worker may take it, see Flag.RETAKE
    is_history: bool  # ended, and kept only for inspection
    worker: bytes | None
    lease_token: int  # 0: not leased
    lease_deadline_at_ms: int | None
    is_durable: bool = False  # it has steps, signals or a stream
    awaits_event: bool = False  # suspended for a signal or child jobs, not only for a time
    needs_steps: bool = False  # it has stored steps: only for takers that know them

    @property
    def key(self) -> str:
        """Text form of the id."""
        return format_id(self.id)


def copy_of(job: Job) -> NewJob:
    """Return a new job with the content of a job, to run now. It has no id, unique key, repeat rule or relations."""
    return NewJob(
        queue=job.queue,
        name=job.name,
        payload=job.payload,
        priority=job.priority,
        lane=job.lane,
        retry=job.retry,
        lease_ms=job.lease_ms,
        lease_rule=job.lease_rule,
        retake=job.retake,
        hidden=job.is_hidden,
        timeout_ms=job.timeout_ms,
        result_ttl_ms=job.result_ttl_ms,
        tombstone_ms=job.tombstone_ms,
        tags=job.tags,
        index=job.index,
        callback=job.callback,
    )


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A child or dependency of a job, with its outcome once it has ended."""

    job: Job
    result: Blob | None = None
    last_attempt: Attempt | None = None  # of a member that did not succeed


class Timeline(msgspec.Struct, frozen=True):
    """A job with its unsuccessful attempts, oldest first (the last 20)."""

    job: Job
    attempts: list[Attempt]


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of a job, or its current state if it has not ended."""

    state: State
    result: Blob | None = None
    last_attempt: Attempt | None = None  # of a job that did not succeed
