"""Stream of a job: values that its code has written, in order."""

from __future__ import annotations

import msgspec

from windlass.core.job import Blob
from windlass.core.states import State


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
