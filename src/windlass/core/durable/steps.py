"""Steps of a job: named outcomes that later attempts find again."""

from __future__ import annotations

from enum import IntEnum

import msgspec

from windlass.core.job import Blob


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
    value: Blob | None = None  # result, signal, cursor, or the error of a failed try; see `schema`

    @property
    def schema(self) -> Blob | None:
        """JSON Schema of the signal that it waits for. It is stored as the value until the signal comes, or until the
        time is over. None: the step waits for no signal, or the type is not known."""
        is_awaited = self.kind is StepKind.SIGNAL and self.status is StepStatus.WAITING
        return self.value if is_awaited else None


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


class Rewind(msgspec.Struct, frozen=True, kw_only=True):
    """Request to drop a step and all that were stored after it. An empty name drops everything."""

    id: bytes
    step: str = ""
