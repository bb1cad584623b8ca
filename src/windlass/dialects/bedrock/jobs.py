"""NumberedJobs by their numbers, and the rule by which a decision about one is made anew when it has changed meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from windlass.core.errors import (
    AlreadyEnded,
    ParentState,
    Refusal,
    RevisionConflict,
    StaleLease,
    UniqueConflict,
    UnknownJob,
    UnknownParent,
    Unsettled,
    WrongState,
)
from windlass.core.ids import NUMBER_MAX
from windlass.core.job import Job
from windlass.core.queue import FOREVER_MS
from windlass.service import Service

from .refusals import NO_SUCH_JOB, CommandRefused
from .verbs import QUEUE

T = TypeVar("T")
DECISION_ATTEMPTS = 50  # so often a decision is made about one job before we give up
UNSETTLED_WAIT_S = 0.01
QUEUE_SETTINGS = {"name_lanes": True, "lease_ms": FOREVER_MS, "retention_ms": FOREVER_MS}
# What was true when the decision was made is not true any more.
STALE_DECISION = (
    StaleLease,
    WrongState,
    RevisionConflict,
    ParentState,
    UnknownParent,
    UniqueConflict,
    UnknownJob,
    AlreadyEnded,
    Unsettled,
)


class NumberedJobs:
    def __init__(self, service: Service, data_max: int) -> None:
        self.service = service
        self.data_max = data_max  # bytes of a job's data

    async def by_number(self, number: int) -> Job | None:
        if not 0 < number <= NUMBER_MAX:
            return None
        job = await self.by_id(self.service.numbered_id(QUEUE, number))
        if job is not None:
            return job
        (later,) = await self.service.numbered(QUEUE, [number])
        return None if isinstance(later, Refusal) else await self.by_id(later)

    async def by_numbers(self, numbers: Iterable[int]) -> list[Job]:
        """Those that are there; asked for side by side."""
        found = await asyncio.gather(*(self.by_number(number) for number in numbers))
        return [job for job in found if job is not None]

    async def by_id(self, job_id: bytes) -> Job | None:
        """None also for what is kept only for people to look at, and for jobs of other queues."""
        (found,) = await self.service.job([job_id])
        if isinstance(found, Refusal) or found.job.is_history or found.job.queue != QUEUE:
            return None
        return found.job

    async def require(self, number: int) -> Job:
        job = await self.by_number(number)
        if job is None:
            raise CommandRefused(*NO_SUCH_JOB)
        return job

    async def numbers(self, ids: Iterable[bytes]) -> dict[bytes, int]:
        """Of jobs that are there; the others are left out."""
        wanted = list(dict.fromkeys(ids))
        if not wanted:
            return {}
        answers = await self.service.number(wanted)
        return {
            job_id: number for job_id, number in zip(wanted, answers, strict=True) if not isinstance(number, Refusal)
        }

    async def number(self, job: Job) -> int:
        numbers = await self.numbers([job.id])
        if job.id not in numbers:
            raise CommandRefused(*NO_SUCH_JOB)
        return numbers[job.id]


async def decide_with_retries(decide: Callable[[], Awaitable[T]]) -> T:
    """Reads, decides and does it under the guards of what was read; again, when something else came first."""
    for _ in range(DECISION_ATTEMPTS):
        try:
            return await decide()
        except STALE_DECISION as overtaken:
            if isinstance(overtaken, Unsettled):
                await asyncio.sleep(UNSETTLED_WAIT_S)
    raise CommandRefused(502, "Update failed")
