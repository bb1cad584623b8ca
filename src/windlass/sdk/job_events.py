"""Events of one job, for code outside of it: a snapshot first, then what happens, and always an end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.core.errors import AlreadyEnded, Refusal, UnknownJob
from windlass.core.event import Event, EventKind
from windlass.core.job import Job, Timeline

from .failures import refuse_event_loop
from .tasks.codec import decode

if TYPE_CHECKING:
    from windlass.service import Service

    from .app import Windlass

ENDED = "ended"  # it has ended and is no longer stored, so how it ended is not known
_NO_MORE = (AlreadyEnded, UnknownJob)  # a server sends no more events of the job
LAST_KINDS = frozenset({"finished", "failed", "cancelled", "deleted", ENDED})


class JobEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Event of a job."""

    kind: (
        str  # snapshot, the state that the job entered, or: progress, emitted, logged, streamed, deleted, missed, ended
    )
    at: datetime
    attempt: int
    progress: float
    note: str = ""  # of `snapshot` and `progress`
    value: Any = None  # of `emitted`
    state: str = ""  # of the job after this event

    @property
    def is_last(self) -> bool:
        return self.kind in LAST_KINDS


class Events:
    """Events of one job until it ends, for `async for`, or for `for` without an event loop.

    The first event is a snapshot of the job, and the last one its end, also if it has ended before. When events are
    missed, another snapshot follows: the job is read again, so its end cannot be missed."""

    def __init__(self, app: Windlass, job_id: bytes) -> None:
        self._app = app
        self._id = job_id

    async def __aiter__(self) -> AsyncIterator[JobEvent]:
        async for event in follow_job(await self._app.aservice(), self._id):
            yield event

    def __iter__(self) -> Iterator[JobEvent]:
        refuse_event_loop("Following a job's events with `for`", "async for event in job.events()")
        return follow_job_sync(self._app.service, self._id)


async def follow_job(service: Service, job_id: bytes, *, shared: bool = False) -> AsyncIterator[JobEvent]:
    """Yield the events of a job until its end. With `shared`, all followers of this event loop share one reader."""
    sequence = _Sequence()
    async with service.follow(job=job_id, shared=True) if shared else service.follow(job=job_id) as following:
        while not sequence.has_ended:
            if sequence.must_read:
                events = sequence.read((await service.job([job_id]))[0])
            else:
                try:
                    events = sequence.add(await following.next())
                except _NO_MORE:
                    events = sequence.read((await service.job([job_id]))[0])
            for event in events:
                yield event


def follow_job_sync(service: Service, job_id: bytes) -> Iterator[JobEvent]:
    """Yield the events of a job until its end, without an event loop."""
    sequence = _Sequence()
    with service.follow(job=job_id) as following:
        while not sequence.has_ended:
            if sequence.must_read:
                yield from sequence.read(service.job([job_id]).wait()[0])
                continue
            try:
                events = sequence.add(following.next_sync())
            except _NO_MORE:
                events = sequence.read(service.job([job_id]).wait()[0])
            yield from events


class _Sequence:
    """Order of the events that a reader gets. No I/O."""

    def __init__(self) -> None:
        self.has_ended = False
        self.must_read = True  # nothing is known yet, or events were missed, the end maybe among them
        self._state = ""
        self._repeated: tuple[str, int] | None = None  # state and attempt of the snapshot: its own event may follow

    def read(self, found: Timeline | Refusal) -> list[JobEvent]:
        """Return the snapshot of a job that was read, and its end if it has ended."""
        self.must_read = False
        if isinstance(found, AlreadyEnded) or (isinstance(found, UnknownJob) and self._state):
            self._state, self.has_ended = ENDED, True
            gone = JobEvent(kind="snapshot", at=datetime.now(UTC), attempt=0, progress=0.0, state=ENDED)
            return [gone, msgspec.structs.replace(gone, kind=ENDED)]
        if isinstance(found, Refusal):
            raise found
        job = found.job
        self._state, self.has_ended = job.state.label, job.state.is_ended
        self._repeated = (self._state, job.attempt)
        shown = [_snapshot(job)]
        if self.has_ended:
            shown.append(msgspec.structs.replace(shown[0], kind=self._state, note=""))
        return shown

    def add(self, event: Event) -> list[JobEvent]:
        """Return an event, unless the snapshot shows it already."""
        if event.kind is EventKind.MISSED:
            self.must_read = True
        if event.kind.state is not None:
            self._state = event.kind.label
            repeated, self._repeated = self._repeated, None
            if repeated == (self._state, event.attempt):
                return []
        elif event.kind is EventKind.DELETED:
            self._state = ENDED
        shown = _make_job_event(event, self._state)
        self.has_ended = shown.is_last
        return [shown]


def _snapshot(job: Job) -> JobEvent:
    at = _time(job.ended_at_ms) if job.ended_at_ms else datetime.now(UTC)
    return JobEvent(
        kind="snapshot", at=at, attempt=job.attempt, progress=job.progress, note=job.note, state=job.state.label
    )


def _make_job_event(event: Event, state: str) -> JobEvent:
    return JobEvent(
        kind=event.kind.label,
        at=_time(event.at_ms) if event.at_ms else datetime.now(UTC),
        attempt=event.attempt,
        progress=event.progress,
        note=event.note,
        value=decode(event.value) if event.value else None,
        state=state,
    )


def _time(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)
