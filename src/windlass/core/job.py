"""A job: what callers give, what is stored, what a taker gets, what people see."""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Literal, TypeAlias

import msgspec

from .ids import format_id
from .retry import ENDLESS, Backoff
from .states import State


class Codec(IntEnum):
    """How payloads, results and errors are encoded; the engine never looks inside."""

    JSON = 0
    MSGPACK = 1
    RAW = 2


class Flag(IntFlag):
    """Bits of the stored record. The two lowest are the payload's codec."""

    MSGPACK = 1
    RAW = 2
    CANCEL_REQUESTED = 4
    AWAITED = 8  # somebody waits for its end
    NAME_LANE = 16  # its lane is divided by name
    RETAKE = 32  # an overdue lease makes it takeable, but the old holder may still report
    RETAKEABLE = 64  # running, overdue, and in its lane
    UNIQUE_WHILE_KEPT = 128  # holds its unique key as long as its record is kept
    HIDDEN = 256  # only for takers that ask for hidden jobs
    HAS_OUTCOME = 512
    HAS_ATTEMPTS = 1024
    IN_HISTORY = 2048  # kept only for people to look at
    HELD = 4096  # a child that waits until its parent hands over
    HAS_MEMBERS = 8192  # it has, or waits for, other jobs: children or dependencies
    HAS_DEPENDENTS = 16384  # other jobs wait for its end
    JOINS = 32768  # ends by itself when its members have ended
    REPEATS = 65536  # goes on after a good end, by its rule
    HAS_CALLBACK = 131072  # a notice is owed when it ends
    OWES_FINISHED = 262144  # ... when it ends so
    OWES_FAILED = 524288
    OWES_CANCELLED = 1048576
    ODD_ROUND = 2097152  # its members' ends are marked by the number of its hand-overs so far, odd or even
    HAS_LOGS = 4194304
    HAS_NOTE = 8388608  # room for one, at the end of the extras
    WHOLE_SECONDS = 16777216  # its leases end on whole seconds, rounded down
    HAS_NUMBER = 33554432  # a number was given to it later, see lua/lib/numbers.lua
    DISPATCH_COUNTS = 67108864  # its last dispatch has spent an attempt, accepted or not


class Blob(msgspec.Struct, frozen=True, gc=False):
    """Opaque bytes with the mark of their codec."""

    data: bytes
    codec: Codec = Codec.JSON


NULL_BLOB = Blob(b"null")
OnFailure: TypeAlias = Literal["collect", "fail", "ignore"]
UniqueCheck: TypeAlias = Literal["none", "keep", "replace", "refuse"]
Durability: TypeAlias = Literal["memory", "fsync", "replica"]
End: TypeAlias = Literal["finished", "failed", "cancelled"]
ENDS: tuple[End, ...] = ("finished", "failed", "cancelled")


class Callback(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A notice that a producer wants when a job ends."""

    url: str = ""  # http or https
    type: str = ""  # instead of a URL: who delivers it, e.g. `kafka`; not checked until then
    destination: str = ""  # ... and where to, in the words of whoever delivers it
    events: tuple[End, ...] = ENDS  # the ends that owe one
    headers: tuple[tuple[str, str], ...] = ()
    data: Blob | None = None  # for whoever delivers it; the engine never looks inside


class Cap(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs of a key may run at once, under a limit with `own_caps`. It holds from the first job that brings
    one until the key has had no jobs for a while; what later jobs bring meanwhile changes nothing."""

    limit: str  # its name
    running: int
    note: str = ""  # kept with it, for whoever works the key's jobs


class NewJob(msgspec.Struct, frozen=True, gc=False):
    """A job to be enqueued. Only `queue` and `name` are needed. Give all others by name: their order may change."""

    queue: str
    name: str
    payload: Blob = NULL_BLOB
    id: bytes = b""  # 16 bytes; made by the store when empty
    priority: int = 0  # int32, smaller first
    run_at_ms: int = 0  # 0: now
    delay_ms: int = 0  # from now; instead of run_at_ms
    expires_at_ms: int = 0  # must have started by then, else it fails with reason `expired`
    expires_in_ms: int = 0  # from now; instead of expires_at_ms
    lane: str = ""  # jobs of one lane are in order among themselves
    unique: str = ""  # the key, within the queue
    unique_check: UniqueCheck = "keep"  # what to do when the key is held
    unique_while_kept: bool = False  # hold the key until the record is gone, not only until the end
    debounce_ms: int = 0  # with a unique key: runs when nobody has called for so long, with the last call's content
    debounce_max_ms: int = 0  # but not later than this after the first call; 0: however late
    throttle_ms: int = 0  # with a unique key: of all calls within such a period, the first wins
    if_revision: int = 0  # with `replace`: only when the existing job has this revision
    retry: Backoff = ENDLESS  # attempts, and pauses between them
    lease_ms: int = 0  # 0: the queue's
    lease_rule: str = ""  # the lease as date modifiers, for who shows it so; it then ends on whole seconds
    retake: bool = False  # see Flag.RETAKE
    hidden: bool = False  # only for takers that ask for hidden jobs
    timeout_ms: int = 0  # execution time allowed; 0: any
    result_ttl_ms: int = 0  # how long the result is kept; 0: not at all
    tags: tuple[str, ...] = ()
    trace: str = ""  # W3C traceparent, handed on
    repeat: str = ""  # rule for the next run after a good end, see core/scheduling/repeat.py
    parent: bytes = b""  # id of the job whose child this is
    held: bool = False  # a child that waits until its parent hands over
    after: tuple[bytes, ...] = ()  # ids of jobs that must have ended before this one starts
    joins: bool = False  # a group: never taken, it ends by itself when its members have ended
    on_failure: OnFailure | Literal[""] = (
        ""  # what a failed member means; "": `fail` with after or joins, else `collect`
    )
    callback: Callback | None = None  # owed when it ends
    cap: Cap | None = None  # for its key under a limit, unless the key has one


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that did not end well."""

    attempt: int
    started_at_ms: int | None
    ended_at_ms: int
    worker: bytes | None
    reason: str
    error: Blob | None


class Job(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A stored job as read at one instant."""

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
    lease_rule: str = ""  # how the lease was given, if by date modifiers
    retake: bool = False
    is_hidden: bool = False  # only for takers that ask for hidden jobs
    timeout_ms: int
    result_ttl_ms: int
    tags: tuple[str, ...]
    trace: str
    repeat: str  # its rule, as typed; empty: it runs once
    schedule: str  # name of the schedule that made it; empty: none did
    planned_at_ms: int | None  # of a job that repeats or was made by a schedule: the instant it was meant for
    parent: bytes | None
    is_held: bool  # waits until its parent hands over
    joins: bool
    has_members: bool  # it has children, or waits for other jobs
    on_failure: OnFailure
    callback: Callback | None
    limits: tuple[str, ...]  # the limits it counts against, as the engine names them
    attempt: int  # leases given so far, less those given back
    revision: int  # grows with each change of content
    progress: float  # 0..1
    note: str = ""  # what its holder noted last in this attempt
    is_cancel_requested: bool
    is_overdue: bool  # its lease ran out and it may be taken by another, see Flag.RETAKE
    is_history: bool  # ended, and kept only for people to look at
    worker: bytes | None
    lease_token: int  # 0 when nobody holds it
    lease_deadline_at_ms: int | None

    @property
    def key(self) -> str:
        """The id as people write it."""
        return format_id(self.id)


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A child, or a job that is waited for, with its outcome once it has ended."""

    job: Job
    result: Blob | None = None
    last_attempt: Attempt | None = None  # of one that did not end well


class Timeline(msgspec.Struct, frozen=True):
    """A job with the attempts that ended badly, oldest first (the last 20)."""

    job: Job
    attempts: list[Attempt]


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a job ended, or that it has not."""

    state: State
    result: Blob | None = None
    last_attempt: Attempt | None = None  # of a job that did not end well
