"""Lookup of jobs by number, and retries of decisions about jobs that have changed in between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from windlass.core.access.tokens import Principal
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

from .refusals import LEASE_LOST, NO_SUCH_JOB, CommandRefused
from .rules import DOCUMENT, Rules

T = TypeVar("T")
DECISION_ATTEMPTS = 50  # for one job, then the command fails
UNSETTLED_WAIT_S = 0.01
QUEUE_SETTINGS = {"name_lanes": True, "lease_ms": FOREVER_MS, "retention_ms": FOREVER_MS}
# Refusals that mean: the job has changed since the decision.
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
    """Jobs of all queues, by number. A job of a queue that the token is not for does not exist for its client."""

    def __init__(self, service: Service, data_max: int, rules: Rules = DOCUMENT) -> None:
        self.service = service
        self.data_max = data_max  # bytes of a job's data
        self.rules = rules

    async def by_number(self, number: int, principal: Principal) -> Job | None:
        if not 0 < number <= NUMBER_MAX:
            return None
        job = await self.by_id(self.service.id_of_number(number), principal)
        if job is not None:
            return job
        # A job that was enqueued in another way got its number later, so its id does not contain it.
        (job_id,) = await self.service.find_numbers([number])
        return None if isinstance(job_id, Refusal) else await self.by_id(job_id, principal)

    async def by_numbers(self, numbers: Iterable[int], principal: Principal) -> list[Job]:
        """Return the jobs that exist. They are read concurrently."""
        found = await asyncio.gather(*(self.by_number(number, principal) for number in numbers))
        return [job for job in found if job is not None]

    async def by_id(self, job_id: bytes, principal: Principal) -> Job | None:
        """Return a job. None: it is unknown, only kept as history, or in a queue that the token is not for."""
        (found,) = await self.service.job([job_id])
        if isinstance(found, Refusal) or found.job.is_history or not principal.may_use(found.job.queue):
            return None
        return found.job

    async def require(self, number: int, principal: Principal, token: int = 0) -> Job:
        """Return a job. Refuse if it does not exist, or if a lease token is given and is not its current one."""
        job = await self.by_number(number, principal)
        if job is None:
            raise CommandRefused(*NO_SUCH_JOB)
        if token and token != job.lease_token:
            raise CommandRefused(*LEASE_LOST)
        return job

    async def numbers(self, ids: Iterable[bytes]) -> dict[bytes, int]:
        """Return the numbers of the jobs that exist."""
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
    """Call `decide` until it succeeds. It reads a job, decides, and applies its decision if the job is unchanged."""
    for _ in range(DECISION_ATTEMPTS):
        try:
            return await decide()
        except STALE_DECISION as stale:
            if isinstance(stale, Unsettled):
                await asyncio.sleep(UNSETTLED_WAIT_S)
    raise CommandRefused(502, "Update failed")
