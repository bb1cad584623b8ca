"""What happens to jobs, as told to those who follow: one small struct per move, progress report or emitted value."""

from __future__ import annotations

from enum import IntEnum

import msgspec

from .job import Blob
from .states import State


class EventKind(IntEnum):
    """Codes are stored in the stream. Up to 15 they are the state that a job has entered."""

    MISSED = 0  # never stored: a follower was away for too long, and this is all that is known
    SCHEDULED = State.SCHEDULED
    QUEUED = State.QUEUED
    WAITING = State.WAITING
    DISPATCHED = State.DISPATCHED
    RUNNING = State.RUNNING
    FINISHED = State.FINISHED
    FAILED = State.FAILED
    CANCELLED = State.CANCELLED
    DELETED = 16  # by a person; a retention that is over says nothing
    PROGRESS = 17
    EMITTED = 18  # a value, from the holder of the lease

    @property
    def label(self) -> str:
        return self.name.lower()

    @property
    def state(self) -> State | None:
        return State(self.value) if 0 < self < 16 else None


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened. `position` is where a follower goes on behind it."""

    kind: EventKind
    job: bytes = b""
    queue: str = ""
    name: str = ""
    at_ms: int = 0
    attempt: int = 0
    progress: float = 0.0  # 0..1
    note: str = ""  # of PROGRESS
    value: Blob | None = None  # of EMITTED
    missed: int | None = None  # of MISSED: how many events; None: nobody knows
    position: str = ""


class EventPage(msgspec.Struct, frozen=True):
    """Events since a position, and the position behind them."""

    events: list[Event]
    position: str


class Emit(msgspec.Struct, frozen=True):
    """A value that the holder of a lease wants followers to see. Token 0 means whoever holds the job now."""

    id: bytes
    token: int
    value: Blob
