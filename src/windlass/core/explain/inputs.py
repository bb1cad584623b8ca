"""Facts about a job, read by the store in one step. `rules.py` derives the reasons from them."""

from __future__ import annotations

from collections.abc import Set

import msgspec

from windlass.core.durable import Step as DurableStep
from windlass.core.flow.cause import direct_cause
from windlass.core.job import Attempt, Job, Timeline
from windlass.core.limits.limit import Limit
from windlass.core.operations import Filter, WorkerInfo
from windlass.core.queue import Pause
from windlass.core.states import State

from .references import Step


class FullLimit(msgspec.Struct, frozen=True, kw_only=True):
    limit: Limit
    key: str | None
    own_cap: int | None = None  # cap of the key
    running: int
    next_token_at_ms: int | None  # only for a rate
    holders: list[bytes]


class QueuePosition(msgspec.Struct, frozen=True, kw_only=True):
    """Position of a takeable job in its queue, as in `Ahead`."""

    ahead: int
    is_fair: bool = False
    lanes: int = 1
    blocked_lanes: int = 0
    weight: int = 1


class Takers(msgspec.Struct, frozen=True, kw_only=True):
    """Takers that wait at the queue."""

    waiting: int = 0
    wanting: int = 0  # takers whose filter accepts this job
    served: int = 0  # leased jobs of the queue
    other_filters: list[Filter] = []  # filters of takers that do not accept this job


class RegisteredWorker(msgspec.Struct, frozen=True, kw_only=True):
    """A registered worker."""

    id: bytes
    info: WorkerInfo
    silent_at_ms: int
    beat_ms: int
    running: int


class RelatedJob(msgspec.Struct, frozen=True):
    id: bytes
    state: State | None  # None: it no longer exists, or is hidden
    is_hidden: bool = False  # in a queue that the caller may not see

    def hide(self) -> RelatedJob:
        return self if self.state is None else RelatedJob(self.id, None, is_hidden=True)


class AwaitedMembers(msgspec.Struct, frozen=True, kw_only=True):
    """Members that keep a job waiting."""

    pending: int = 0
    first: list[RelatedJob] = []
    deleted: int = 0  # members that were deleted before they ended
    first_deleted: list[bytes] = []


class SuspendedOn(msgspec.Struct, frozen=True):
    """A wait for which a job is suspended."""

    step: DurableStep
    pending_children: int = 0


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a job at one instant, as far as its state needs them."""

    now_ms: int
    job: Job
    last_attempt: Attempt | None = None  # last unsuccessful attempt
    pauses: list[Pause] = []
    limits: list[FullLimit] = []  # limits that block the job
    position: QueuePosition | None = None
    takers: Takers = Takers()
    workers: list[RegisteredWorker] = []
    workers_without_name: list[bytes] = []  # push workers that do not know its name
    has_more_workers: bool = False  # more workers exist than were read
    queue_lease_ms: int = 0
    is_lease_fixed: bool = False  # no report of its holder moves the deadline
    holder: RegisteredWorker | None = None
    parent: RelatedJob | None = None
    awaited: AwaitedMembers = AwaitedMembers()
    steps: list[Step] = []
    waits: list[SuspendedOn] = []  # of a suspended job
    suspended_at_ms: int = 0
    removed_at_ms: int | None = None
    is_needed: bool = False
    cause: Timeline | None = None  # of an end because of another job
    is_cause_hidden: bool = False  # it is in a queue that the caller may not see

    @property
    def is_consequence(self) -> bool:
        """Return whether the job ended because of another job."""
        return direct_cause(Timeline(self.job, [self.last_attempt] if self.last_attempt else [])) is not None

    def others(self) -> list[bytes]:
        """Return the ids of the other jobs in these facts."""
        related = [*([self.parent] if self.parent else ()), *self.awaited.first]
        holders = [holder for full in self.limits for holder in full.holders]
        return list(dict.fromkeys([*(job.id for job in related if job.state is not None), *holders]))

    def hide(self, hidden: Set[bytes]) -> Facts:
        """Return the facts without the states of these jobs, and without these jobs as holders of limits."""
        if not hidden:
            return self
        first = [job.hide() if job.id in hidden else job for job in self.awaited.first]
        return msgspec.structs.replace(
            self,
            parent=self.parent.hide() if self.parent and self.parent.id in hidden else self.parent,
            awaited=msgspec.structs.replace(self.awaited, first=first),
            limits=[
                msgspec.structs.replace(full, holders=[holder for holder in full.holders if holder not in hidden])
                for full in self.limits
            ],
        )
