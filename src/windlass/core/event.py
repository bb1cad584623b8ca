"""Events about jobs: one struct per state change, progress report or emitted value."""

from __future__ import annotations

from enum import IntEnum

import msgspec

from .job import Blob
from .states import State


class EventKind(IntEnum):
    """Kind of an event. The codes are stored in the stream; codes up to 15 are the state that a job has entered."""

    MISSED = 0  # never stored: reports events that were trimmed before the follower read them
    SCHEDULED = State.SCHEDULED
    QUEUED = State.QUEUED
    WAITING = State.WAITING
    DISPATCHED = State.DISPATCHED
    RUNNING = State.RUNNING
    FINISHED = State.FINISHED
    FAILED = State.FAILED
    CANCELLED = State.CANCELLED
    SUSPENDED = State.SUSPENDED
    DELETED = 16  # on request; the end of a retention time emits no event
    PROGRESS = 17
    EMITTED = 18  # a value, from the holder of the lease
    STREAMED = 19  # the stream of the job has grown
    LOGGED = 20  # the log of the job has grown

    @property
    def label(self) -> str:
        return self.name.lower()

    @property
    def state(self) -> State | None:
        return State(self.value) if 0 < self < 16 else None


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One event. A follower that resumes at `position` gets the events after it."""

    kind: EventKind
    job: bytes = b""
    queue: str = ""
    name: str = ""
    at_ms: int = 0
    attempt: int = 0
    progress: float = 0.0  # 0..1
    note: str = ""  # only with PROGRESS
    value: Blob | None = None  # only with EMITTED
    missed: int | None = None  # only with MISSED: number of events; None: unknown
    position: str = ""


class EventPage(msgspec.Struct, frozen=True):
    """Events after a position, and the position to continue from."""

    events: list[Event]
    position: str


class Emit(msgspec.Struct, frozen=True):
    """A value that the holder of a lease publishes to followers. Token 0 stands for the current holder."""

    id: bytes
    token: int
    value: Blob
