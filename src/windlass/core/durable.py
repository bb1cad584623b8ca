"""Durable state of a job: stored steps, waits, signals and its stream."""

from __future__ import annotations

from enum import IntEnum
from typing import Literal, TypeAlias

import msgspec

from .job import Blob
from .states import State

STEP_NAME_MAX = 200  # bytes, with the suffix of a repeated name
STEP_VALUE_MAX = 1024 * 1024  # bytes of one value
STEPS_MAX = 1_000  # per job
STEPS_BYTES_MAX = 16 * 1024 * 1024  # of all values of a job
SUSPENSIONS_MAX = 10_000  # per job
SIGNAL_NAME_MAX = 100  # bytes
SIGNAL_VALUE_MAX = 64 * 1024
SIGNALS_MAX = 100  # unread signals of a job
CHILDREN_MAX = 1_000  # of one wait
WAITS_MAX = 100  # of one suspension
STREAM_VALUE_MAX = 64 * 1024
STREAM_VALUES_MAX = 50_000  # per job
STREAM_BYTES_MAX = 16 * 1024 * 1024  # per job
STREAM_KEPT_MS = 600_000  # after the end of a job whose result is not kept, so that readers get the last values


class StepKind(IntEnum):
    """Kind of a stored step. The codes are stored, so their meaning never changes."""

    STEP = 1  # a piece of work
    SLEEP = 2
    SIGNAL = 3  # a wait for a signal
    CHILDREN = 4  # a wait for child jobs
    CURSOR = 5  # position in an iteration: waiting while there are more rows, then done

    @property
    def label(self) -> str:
        return self.name.lower()


class StepStatus(IntEnum):
    """Status of a stored step. The codes are stored, so their meaning never changes."""

    WAITING = 1  # its condition is not met yet; a step waits for its next try
    DONE = 2
    FAILED = 3  # for good
    TIMED_OUT = 4  # a wait whose time was over

    @property
    def label(self) -> str:
        return self.name.lower()


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A stored step of a job."""

    name: str
    kind: StepKind
    status: StepStatus
    number: int  # order in which the steps of a job were first stored
    tries: int = 0  # of a piece of work
    begun_at_ms: int = 0
    ended_at_ms: int | None = None  # None: it waits
    wake_at_ms: int | None = None  # end of a sleep, timeout of a wait, next try of a step
    signal: str = ""  # name of the signal that it waits for, or has received
    children: tuple[bytes, ...] = ()  # ids of the jobs that it waits for
    value: Blob | None = None  # result, signal, cursor, or the error of a failed try


class UnreadSignal(msgspec.Struct, frozen=True):
    """A signal that no wait has received yet."""

    name: str
    at_ms: int
    value: Blob


class DurableState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is stored for the durable calls of a job, read at one instant."""

    now_ms: int  # time of the engine
    steps: tuple[Step, ...] = ()  # in their order
    signals: tuple[UnreadSignal, ...] = ()  # unread, oldest first
    suspensions: int = 0
    suspended_at_ms: int | None = None  # since when it is suspended
    waits: tuple[str, ...] = ()  # names of the steps for which it is suspended
    round: int = 0  # how often a person has retried or rewound the job
    has_yielded: bool = False  # it has finished a run while children had not ended
    stream_writes: int = 0  # values written to its stream outside of steps
    stream_length: int = 0  # entries of its stream
    bytes: int = 0


class OpenWaits(msgspec.Struct, frozen=True, kw_only=True):
    """Waits of a suspended job, without values. A job that is not suspended has none."""

    now_ms: int  # time of the engine
    suspended_at_ms: int | None = None
    steps: tuple[Step, ...] = ()


class StoreStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step that its holder has run. The first outcome of a name stays; a cursor moves on while it waits."""

    id: bytes
    token: int
    name: str
    kind: StepKind = StepKind.STEP
    status: StepStatus = StepStatus.DONE
    value: Blob | None = None
    tries: int = 1
    ran_ms: int = 0  # how long it took
    lease_ms: int = 0  # extends the lease by this; 0: the job's or the queue's


WaitKind: TypeAlias = Literal["sleep", "signal", "children", "retry"]


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """A condition on which a job is suspended. It is stored as a step of this name, once."""

    name: str
    kind: WaitKind
    for_ms: int | None = None  # length of the sleep, timeout, or pause before the next try; None: no end
    signal: str = ""
    children: tuple[bytes, ...] = ()
    needs_all: bool = False  # a failed child does not end the wait for the others
    tries: int = 0  # of a step that is retried
    error: Blob | None = None  # of its last try


class Suspend(msgspec.Struct, frozen=True, kw_only=True):
    """End of a run that waits. The job runs again as soon as one of its conditions is met."""

    id: bytes
    token: int
    waits: tuple[Wait, ...]


# `suspended`; `queued`: a condition is already met; `cancelled`: a cancel was requested.
SuspendOutcome: TypeAlias = Literal["suspended", "queued", "cancelled"]


class ReceiveSignal(msgspec.Struct, frozen=True, kw_only=True):
    """Request of a holder to assign the oldest unread signal of this name to the wait of this name."""

    id: bytes
    token: int
    name: str  # of the wait
    signal: str


class Signal(msgspec.Struct, frozen=True, kw_only=True):
    """A value for a job that waits for it, or will."""

    id: bytes
    name: str
    value: Blob
    request_id: bytes = b""  # 16 bytes; a repeated request with the same id has no effect
    # Only for this occurrence: the planned instant of a repeating job, 0 of another. None: any
    occurrence_at_ms: int | None = None
    is_one_time: bool = False  # the request id is remembered as long as the job; else, with the last 100


# `received`: the job waits for it and continues; `kept`: until the job asks for it; `repeated`: this request id was
# seen before, and nothing has changed.
SignalOutcome: TypeAlias = Literal["received", "kept", "repeated"]


class Rewind(msgspec.Struct, frozen=True, kw_only=True):
    """Request to drop a step and all that were stored after it. An empty name drops everything."""

    id: bytes
    step: str = ""


class StreamWrite(msgspec.Struct, frozen=True, kw_only=True):
    """Values for the stream of a job.

    `outside`: how many values this run has written outside of steps before these; None: they are written inside a step.
    A repeated run writes no value a second time.
    """

    id: bytes
    token: int
    values: tuple[Blob, ...]
    sequence: int  # number of values that this run has written before these
    outside: int | None = None


class StreamItem(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of a stream: a value, or the mark of a new attempt."""

    position: int  # from 1
    at_ms: int
    attempt: int
    value: Blob | None = None  # None: a new attempt begins here

    @property
    def is_new_attempt(self) -> bool:
        return self.value is None


class StreamPage(msgspec.Struct, frozen=True):
    """Entries of a stream after a position."""

    items: list[StreamItem]
    is_ended: bool  # the job has ended, and there are no more entries
    last: int = 0  # position of the last entry of the stream
    state: State = State.RUNNING  # of the job
