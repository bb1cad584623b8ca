"""What may be asked of the engine about a job, and the answers. One struct per item of a call."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from .job import Attempt, Blob, Job, Member


class Enqueued(msgspec.Struct, frozen=True, gc=False):
    """`existing`: the id or the unique key was there before, or the first call of its period (`throttle_ms`) has won.
    `replaced`: the content, name and lane included, went into the job that holds the key (`replace`, `debounce_ms`).
    `ended`: this id has run and gone already, went into another job, or ended at once by the policy of what it should
    wait for."""

    id: bytes
    status: Literal["queued", "scheduled", "waiting", "existing", "replaced", "ended"]
    revision: int
    is_durable: bool = True  # False: accepted, but the asked-for durability was not confirmed in time


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs a taker wants; at most one of the three name conditions."""

    only: tuple[str, ...] = ()
    all_but: tuple[str, ...] = ()
    glob: str = ""
    priority: int | None = None
    hidden: bool = False  # hidden jobs too


ANY_JOB = Filter()


class Take(msgspec.Struct, frozen=True, kw_only=True):
    queues: tuple[str, ...]
    most: int = 1
    weights: tuple[int, ...] = ()  # as many as queues: the order is drawn by weight; empty: in the order given
    wants: Filter = ANY_JOB
    worker: bytes = b""  # 16 bytes
    lease_ms: int = 0  # 0: the job's or the queue's
    accept_ms: int = 0  # > 0: dispatched, to be accepted within this time
    wait_ms: int = 0  # wait this long for a job
    by_hand: bool = False  # while it waits, a worker may be handed a job that is dispatched, to be accepted at once


class Taken(msgspec.Struct, frozen=True):
    jobs: list[Job]
    next_due_at_ms: int | None  # when something may become takeable in these queues; None: nothing is known
    started_before: dict[bytes, int] = {}  # id -> when it was taken the time before, of those that had been
    used_up: int = 0  # jobs that were due and failed instead: no attempt was left to them


class LeaseRef(msgspec.Struct, frozen=True, gc=False):
    """A lease as its holder knows it. Token 0 means whoever holds the job now."""

    id: bytes
    token: int


class Finish(msgspec.Struct, frozen=True, gc=False):
    id: bytes
    token: int
    result: Blob | None = None
    ignore_repeat: bool = False  # a job that repeats ends for good


class Fail(msgspec.Struct, frozen=True, kw_only=True):
    id: bytes
    token: int
    then: Literal["retry", "final", "cancelled"] = "final"
    delay_ms: int = 0  # of the retry
    reason: str = "error"
    error: Blob | None = None


# None: it ended well. `waiting`: it has members that have not ended, and waits for them. `failed` and `cancelled`: its
# policy is `fail`, and a member ended so; or a cancel was requested, and it would have had to wait.
FinishOutcome: TypeAlias = Literal["waiting", "failed", "cancelled"] | None
FailOutcome: TypeAlias = Literal["retried", "failed", "cancelled"]


class Update(msgspec.Struct, frozen=True, kw_only=True):
    id: bytes
    token: int
    progress: float | None = None
    note: str | None = None  # beside the progress, for people; empty: none any more
    payload: Blob | None = None


class Updated(msgspec.Struct, frozen=True):
    revision: int
    is_cancel_requested: bool


class Extended(msgspec.Struct, frozen=True):
    deadline_at_ms: int | None
    is_cancel_requested: bool


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    id: bytes
    name: str = ""
    priority: int | None = None
    run_at_ms: int | None = None
    payload: Blob | None = None
    repeat: str | None = None  # another rule; empty: repeats no more
    attempt: int | None = None  # attempts that count as made
    if_revision: int = 0
    in_any_state: bool = False


class CompleteWithChildren(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a run with content of the caller's, in one step. `finish` hands over to members that have not ended;
    else the job ends, or goes on at `run_at_ms` if that is given. `again`: it goes on then, members or not."""

    id: bytes
    token: int = 0  # 0: whoever holds it
    then: Literal["finish", "again", "fail"]
    run_at_ms: int | None = None
    delay_ms: int | None = None  # from now, rounded down to whole seconds; instead of run_at_ms
    name: str = ""
    unique: str = ""  # another unique key; empty: as it is
    priority: int | None = None
    payload: Blob | None = None
    repeat: str | None = None  # another rule; empty: repeats no more
    attempt: int = 0  # with `again`: attempts that count as made
    reason: str = "error"  # with `fail`
    if_revision: int = 0
    if_parent_waits: bool = False  # a child: only while its parent waits
    in_any_state: bool = False  # nobody needs to hold it
    keeps_members: bool = False  # with `again`: members that have ended stay


CompletionOutcome: TypeAlias = Literal["finished", "waiting", "again", "failed", "cancelled"]


class Edited(msgspec.Struct, frozen=True):
    revision: int
    state: int


class FinishedAndTaken(msgspec.Struct, frozen=True):
    finished: list[FinishOutcome | Exception]
    failed: list[FailOutcome | Exception]
    taken: Taken


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """One page of jobs: by `state`, of a queue or of all, or by `tag`; the other conditions narrow it further."""

    queue: str = ""  # with a state, empty: of all queues, merged in the order of the list
    state: str = ""  # queued, scheduled, waiting, running, finished, failed, cancelled, history
    tag: str = ""
    name: str = ""  # GLOB
    created_from_ms: int = 0
    created_before_ms: int = 0
    ended_from_ms: int = 0
    ended_before_ms: int = 0
    error: str = ""  # text that the last error holds, in any case
    error_shape: str = ""  # the shape of the last error, as `failures` tells it
    with_errors: bool = False  # pages carry the last attempts that did not end well
    newest_first: bool = False
    most: int = 50
    cursor: str = ""


class Page(msgspec.Struct, frozen=True):
    """`cursor` is empty at the end; a page may hold fewer jobs than asked for, even none, and still go on."""

    jobs: list[Job]
    cursor: str
    looked_at: int = 0  # jobs, to find these
    last_attempts: dict[bytes, Attempt] = {}  # id -> what went wrong last, when the listing wants it


class MemberPage(msgspec.Struct, frozen=True):
    """`cursor` is empty at the end; a page may be short, even empty, and still go on."""

    members: list[Member]
    cursor: str


class WorkerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker says of itself."""

    host: str = ""
    pid: int = 0
    queues: tuple[str, ...] = ()
    slots: int = 1
    name: str = ""
    url: str = ""  # where jobs are pushed to it; empty: it takes them itself


class Dispatch(msgspec.Struct, frozen=True):
    """Jobs to be pushed, each leased to a worker (`job.worker`), and what these workers are."""

    jobs: list[Job]
    workers: dict[bytes, WorkerInfo]
    next_due_at_ms: int | None


# What a push came to: the worker took the job on; it does not know the name; it could not be reached, or is in trouble;
# it is gone for good.
PushOutcome: TypeAlias = Literal["accepted", "unknown", "unreachable", "gone"]


class PushReport(msgspec.Struct, frozen=True, kw_only=True):
    id: bytes
    token: int
    worker: bytes
    outcome: PushOutcome
    lease_ms: int = 0  # of one that was accepted; 0: the job's or the queue's


class Redirect(msgspec.Struct, frozen=True, kw_only=True):
    """A worker refused a pushed job: another one is to have it."""

    id: bytes
    token: int
    refused_by: tuple[bytes, ...]  # all workers that have refused it, in turn
    accept_ms: int = 10_000


# What a worker says in a message: it is idle; it takes a job on; it works on it; it has done it.
WorkerReportKind: TypeAlias = Literal["idle", "accepted", "progress", "finished"]


class WorkerReport(msgspec.Struct, frozen=True, kw_only=True):
    """A message of a worker that is given jobs by messages, not by connections of its own."""

    queue: str
    worker: bytes  # 16 bytes
    info: WorkerInfo
    says: WorkerReportKind
    unique: str = ""  # the job by its unique key,
    id: bytes = b""  # or else by its id
    age_ms: int = 0  # how long ago it was said
    idle_ms: int = 0  # for how long it may be given a job from now on; 0: it is busy
    progress: float = 0.0
    result: Blob | None = None


# `ok`; or what `finish` answers, where that is not None
WorkerReportOutcome: TypeAlias = Literal["ok", "waiting", "failed", "cancelled"]


class RunningJob(msgspec.Struct, frozen=True):
    id: bytes
    since_ms: int


class HeartbeatReply(msgspec.Struct, frozen=True):
    """The answer to the heartbeat of a worker that names the jobs it holds."""

    is_asked_to_stop: bool
    unclaimed: list[LeaseRef]  # leases under its name that it did not name


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    id: bytes
    info: WorkerInfo
    started_at_ms: int
    silent_at_ms: int  # when it counts as lost unless it beats
    beat_at_ms: int = 0  # when it was last heard
    running_count: int
    running: list[RunningJob]
    stopping_since_ms: int | None = None  # it was asked to end
