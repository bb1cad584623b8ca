"""Requests to the engine about jobs and workers, and their results. One struct per item of a call."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from .job import Attempt, Blob, Job, Member


class Enqueued(msgspec.Struct, frozen=True, gc=False):
    """Result of enqueueing one job.

    `existing`: the id or the unique key already existed, or an earlier call of the same period (`throttle_ms`) was
    accepted. `replaced`: the content, including name and lane, was written into the job that holds the key (`replace`,
    `debounce_ms`). `ended`: the job with this id has already ended and was removed, its content went into another job,
    or it ended at once because of the failure policy for its dependencies.
    """

    id: bytes
    status: Literal["queued", "scheduled", "waiting", "existing", "replaced", "ended"]
    revision: int
    is_durable: bool = True  # False: accepted, but the requested durability was not confirmed in time


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions on the jobs that a taker accepts. At most one of the three name conditions may be given."""

    only: tuple[str, ...] = ()
    all_but: tuple[str, ...] = ()
    glob: str = ""
    priority: int | None = None
    hidden: bool = False  # hidden jobs too
    steps: bool = False  # the taker knows durable steps: jobs with stored steps too


ANY_JOB = Filter()
ANY_JOB_WITH_STEPS = Filter(steps=True)


class Take(msgspec.Struct, frozen=True, kw_only=True):
    queues: tuple[str, ...]
    most: int = 1
    weights: tuple[int, ...] = ()  # one per queue: the order is random by weight; empty: in the given order
    wants: Filter = ANY_JOB
    worker: bytes = b""  # 16 bytes
    lease_ms: int = 0  # 0: the job's or the queue's
    fallback_lease_ms: int = 0  # instead of lease_ms: for jobs that have no own lease with an end; not over HTTP
    accept_ms: int = 0  # > 0: dispatched, to be accepted within this time
    wait_ms: int = 0  # wait this long for a job
    by_hand: bool = (
        False  # direct handoff: a waiting worker may be given a dispatched job, which it must accept at once
    )


class Taken(msgspec.Struct, frozen=True):
    jobs: list[Job]
    next_due_at_ms: int | None  # when a job may become takeable in these queues; None: unknown
    started_before: dict[bytes, int] = {}  # id -> time of the previous take, for jobs that were taken before
    used_up: int = 0  # due jobs that failed instead because they had no attempt left


class LeaseRef(msgspec.Struct, frozen=True, gc=False):
    """Reference to a lease: job id and token. Token 0 stands for the current holder."""

    id: bytes
    token: int


class TakenRef(msgspec.Struct, frozen=True, gc=False):
    """Reference to the lease of a job whose details are wanted, as its record describes it."""

    id: bytes
    token: int
    lease_ms: int = 0  # new duration of its lease, since the take; 0: the deadline stays
    parent: bytes = b""  # empty: none
    has_members: bool = False


class NumberedJob(msgspec.Struct, frozen=True):
    job: Job
    number: int


class TakenDetails(msgspec.Struct, frozen=True):
    """Facts about a taken job that its record does not have."""

    number: int
    deadline_at_ms: int | None = None  # of its lease, if a new duration was given; 0: none
    parent: NumberedJob | None = None
    children: tuple[NumberedJob, ...] = ()  # those that have ended


class Finish(msgspec.Struct, frozen=True, gc=False):
    id: bytes
    token: int
    result: Blob | None = None
    ignore_repeat: bool = False  # end a repeating job permanently


class Fail(msgspec.Struct, frozen=True, kw_only=True):
    id: bytes
    token: int
    then: Literal["retry", "final", "cancelled"] = "final"
    delay_ms: int = 0  # of the retry
    reason: str = "error"
    error: Blob | None = None


# None: it succeeded. `waiting`: it waits for members that have not ended. `failed` and `cancelled`: its policy is
# `fail` and a member ended so, or a cancel was requested and the job would have had to wait.
FinishOutcome: TypeAlias = Literal["waiting", "failed", "cancelled"] | None
FailOutcome: TypeAlias = Literal["retried", "failed", "cancelled"]


class Update(msgspec.Struct, frozen=True, kw_only=True):
    id: bytes
    token: int
    progress: float | None = None
    note: str | None = None  # for people, shown with the progress; empty: removes the note
    payload: Blob | None = None


class Updated(msgspec.Struct, frozen=True):
    revision: int
    is_cancel_requested: bool


class Extended(msgspec.Struct, frozen=True):
    deadline_at_ms: int | None
    is_cancel_requested: bool
    fixed_for_ms: int | None = None  # the lease is not renewed in its queue and ends after this time; None: it is


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    id: bytes
    name: str = ""
    priority: int | None = None
    run_at_ms: int | None = None
    payload: Blob | None = None
    repeat: str | None = None  # new rule; empty: no further repeats
    attempt: int | None = None  # new number of attempts made
    if_revision: int = 0
    if_token: int = 0  # only while the lease with this token holds; not over HTTP
    in_any_state: bool = False


class CompleteWithChildren(msgspec.Struct, frozen=True, kw_only=True):
    """End of a run together with a change of content, in one step.

    `finish`: the job hands over to members that have not ended; without such members it ends, or runs again at
    `run_at_ms` if that is given. `again`: the job runs again at that time, with or without members.
    """

    id: bytes
    token: int = 0  # 0: the current holder
    then: Literal["finish", "again", "fail"]
    run_at_ms: int | None = None
    delay_ms: int | None = None  # from now, rounded down to whole seconds; instead of run_at_ms
    name: str = ""
    unique: str = ""  # new unique key; empty: unchanged
    priority: int | None = None
    payload: Blob | None = None
    repeat: str | None = None  # new rule; empty: no further repeats
    attempt: int = 0  # with `again`: new number of attempts made
    reason: str = "error"  # with `fail`
    if_revision: int = 0
    if_parent_waits: bool = False  # for a child: only while its parent waits
    in_any_state: bool = False  # no lease is required
    keeps_members: bool = False  # with `again`: keep members that have ended


CompletionOutcome: TypeAlias = Literal["finished", "waiting", "again", "failed", "cancelled"]


class Edited(msgspec.Struct, frozen=True):
    revision: int
    state: int


class FinishedAndTaken(msgspec.Struct, frozen=True):
    finished: list[FinishOutcome | Exception]
    failed: list[FailOutcome | Exception]
    taken: Taken


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """Request for a page of jobs by `state` (of one queue or of all), by `tag` or by payload fields, filtered by the
    other conditions."""

    queue: str = ""  # empty, with a state: all queues, merged in the order of the list
    # queued, scheduled, waiting, suspended, running, finished, failed, cancelled or history; `all`: all but the history
    state: str = ""
    tag: str = ""
    where: tuple[str, ...] = ()  # values of indexed payload fields, as field=value; all must hold
    name: str = ""  # GLOB
    created_from_ms: int = 0
    created_before_ms: int = 0
    ended_from_ms: int = 0
    ended_before_ms: int = 0
    error: str = ""  # text in the last error, case-insensitive
    error_shape: str = ""  # shape of the last error, as `failures` returns it
    with_errors: bool = False  # return the last unsuccessful attempts with the page
    newest_first: bool = False
    most: int = 50
    cursor: str = ""
    text: str = ""  # in the payload, which is read as compact JSON; case-insensitive


class Page(msgspec.Struct, frozen=True):
    """A page of jobs. `cursor` is empty on the last page; other pages may be short or even empty."""

    jobs: list[Job]
    cursor: str
    looked_at: int = 0  # number of jobs examined for this page
    last_attempts: dict[bytes, Attempt] = {}  # id -> last unsuccessful attempt, if the listing requests it
    is_complete: bool = True  # False: more queues have such jobs than a list covers


class MemberPage(msgspec.Struct, frozen=True):
    """A page of members. `cursor` is empty on the last page; other pages may be short or even empty."""

    members: list[Member]
    cursor: str


class WorkerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Description that a worker gives of itself."""

    host: str = ""
    pid: int = 0
    queues: tuple[str, ...] = ()
    slots: int = 1
    name: str = ""
    url: str = ""  # where jobs are pushed to it; empty: it takes them itself
    names: tuple[str, ...] = ()  # names of the jobs that it can run; empty: not given, it may run jobs of any name
    version: str = ""  # of Windlass; empty: not given
    python: str = ""  # version of its interpreter; empty: not given
    memory_bytes: int = 0  # that its process uses, at its last registration; 0: not known
    component: str = ""  # the part of a server that registered itself; empty: a worker of an application


class Dispatch(msgspec.Struct, frozen=True):
    """Jobs to push, each leased to a worker (`job.worker`), and the descriptions of these workers."""

    jobs: list[Job]
    workers: dict[bytes, WorkerInfo]
    next_due_at_ms: int | None
    fixed_leases_ms: dict[bytes, int] = {}  # by job, where the queue does not renew leases: the worker has so long


# Outcome of a push. `accepted`: the worker accepted the job. `unknown`: it does not know the name. `unreachable`: it
# could not be reached, or reported an error. `gone`: it no longer exists.
PushOutcome: TypeAlias = Literal["accepted", "unknown", "busy", "unreachable", "gone"]


class PushReport(msgspec.Struct, frozen=True, kw_only=True):
    id: bytes
    token: int
    worker: bytes
    outcome: PushOutcome
    lease_ms: int = 0  # if accepted, unless the lease is fixed; 0: the job's or the queue's
    pause_ms: int = 0  # if busy: how long the worker gets no jobs; 0: a pause that grows


class Redirect(msgspec.Struct, frozen=True, kw_only=True):
    """Request to give a refused pushed job to another worker."""

    id: bytes
    token: int
    refused_by: tuple[bytes, ...]  # all workers that have refused it, in order
    accept_ms: int = 10_000


# Content of a worker's message: it is idle, has accepted a job, reports progress, or has finished or failed the job.
WorkerReportKind: TypeAlias = Literal["idle", "accepted", "progress", "finished", "failed"]
# What follows a failed attempt. `auto`: the retry policy of the job decides; without one the job ends as failed.
AfterFailure: TypeAlias = Literal["auto", "retry", "final"]


class WorkerReport(msgspec.Struct, frozen=True, kw_only=True):
    """Message of a worker that receives jobs as messages and has no connection to the engine."""

    queue: str
    worker: bytes  # 16 bytes
    info: WorkerInfo
    kind: WorkerReportKind
    unique: str = ""  # the job by its unique key,
    id: bytes = b""  # or by its id
    age_ms: int = 0  # age of the message
    idle_ms: int = 0  # how long it may be given a job from now on; 0: it is busy
    progress: float = 0.0
    result: Blob | None = None
    error: Blob | None = None  # of a failed attempt
    then: AfterFailure = "auto"  # after a failed attempt


# `ok`; `cancel_requested`: the worker should stop the job that it reports on; or the outcome of `finish` or `fail`.
WorkerReportOutcome: TypeAlias = Literal["ok", "cancel_requested", "waiting", "retried", "failed", "cancelled"]


class WorkerJob(msgspec.Struct, frozen=True):
    id: bytes
    since_ms: int


class HeartbeatReply(msgspec.Struct, frozen=True):
    """Reply to a heartbeat in which a worker names the jobs it holds."""

    is_asked_to_stop: bool
    unclaimed: list[LeaseRef]  # leases of this worker that the heartbeat did not name


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    id: bytes
    info: WorkerInfo
    started_at_ms: int
    silent_at_ms: int  # when it counts as lost without another heartbeat
    beat_at_ms: int = 0  # time of its last heartbeat
    running_count: int
    running: list[WorkerJob]
    stopping_since_ms: int | None = None  # when it was asked to stop
