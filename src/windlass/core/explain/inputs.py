"""What explains a job, as the store read it in one step; `explaining` draws the conclusions."""

from __future__ import annotations

from collections.abc import Set

import msgspec

from windlass.core.job import Attempt, Job
from windlass.core.limits.limit import Limit
from windlass.core.operations import Filter, WorkerInfo
from windlass.core.queue import Pause
from windlass.core.states import State

from .references import Step


class FullLimit(msgspec.Struct, frozen=True, kw_only=True):
    limit: Limit
    key: str | None
    own_cap: int | None = None  # of the key
    running: int
    next_token_at_ms: int | None  # of a rate
    holders: list[bytes]


class QueuePosition(msgspec.Struct, frozen=True, kw_only=True):
    """Of a job that may be taken, in its queue; as in `Ahead`."""

    ahead: int
    is_fair: bool = False
    lanes: int = 1
    blocked_lanes: int = 0
    weight: int = 1


class Takers(msgspec.Struct, frozen=True, kw_only=True):
    """Those who wait at the queue."""

    waiting: int = 0
    wanting: int = 0  # this job
    served: int = 0  # jobs of the queue that somebody has
    other_filters: list[Filter] = []  # of those who do not


class RegisteredWorker(msgspec.Struct, frozen=True, kw_only=True):
    """A registered worker."""

    id: bytes
    info: WorkerInfo
    silent_at_ms: int
    beat_ms: int
    running: int


class RelatedJob(msgspec.Struct, frozen=True):
    id: bytes
    state: State | None  # None: it is gone, or hidden
    is_hidden: bool = False  # in a queue that the caller may not see

    def hide(self) -> RelatedJob:
        return self if self.state is None else RelatedJob(self.id, None, is_hidden=True)


class AwaitedMembers(msgspec.Struct, frozen=True, kw_only=True):
    """The members of a waiting job that keep it waiting."""

    pending: int = 0
    first: list[RelatedJob] = []
    deleted: int = 0  # before their end
    first_deleted: list[bytes] = []


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What was read of a job at one instant; only what concerns its state."""

    now_ms: int
    job: Job
    last_attempt: Attempt | None = None  # that ended badly
    pauses: list[Pause] = []
    limits: list[FullLimit] = []  # that have no room
    position: QueuePosition | None = None
    takers: Takers = Takers()
    workers: list[RegisteredWorker] = []
    workers_without_name: list[bytes] = []  # workers that jobs are pushed to, and that do not know its name
    has_more_workers: bool = False  # than were looked at
    queue_lease_ms: int = 0
    holder: RegisteredWorker | None = None
    parent: RelatedJob | None = None
    awaited: AwaitedMembers = AwaitedMembers()
    steps: list[Step] = []
    removed_at_ms: int | None = None
    is_needed: bool = False

    def others(self) -> list[bytes]:
        """Return the ids of the other jobs that these facts say something about."""
        relatives = [*([self.parent] if self.parent else ()), *self.awaited.first]
        holders = [holder for full in self.limits for holder in full.holders]
        return list(dict.fromkeys([*(one.id for one in relatives if one.state is not None), *holders]))

    def hide(self, hidden: Set[bytes]) -> Facts:
        """Return the same facts without the states of these jobs, and without them as holders of limits."""
        if not hidden:
            return self
        first = [one.hide() if one.id in hidden else one for one in self.awaited.first]
        return msgspec.structs.replace(
            self,
            parent=self.parent.hide() if self.parent and self.parent.id in hidden else self.parent,
            awaited=msgspec.structs.replace(self.awaited, first=first),
            limits=[
                msgspec.structs.replace(full, holders=[one for one in full.holders if one not in hidden])
                for full in self.limits
            ],
        )
