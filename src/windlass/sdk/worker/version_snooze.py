"""Version snooze: returns jobs whose arguments have a newer version than this worker knows.

No attempt is spent. The job becomes available again later, for this worker or a newer worker. The longer the worker
meets such jobs, the longer the delay.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from windlass.core.errors import EngineNotPermitted, EngineUnavailable, Forbidden, Refusal
from windlass.core.job import Job
from windlass.core.operations import Edit, LeaseRef, Update
from windlass.retry_loop import RetryLoop
from windlass.sdk.tasks.task import Task
from windlass.sdk.tasks.versions import read_version
from windlass.service import Service

log = logging.getLogger("windlass.worker")

SOONEST_MS = 5_000
LATEST_MS = 60_000


class VersionSnooze:
    """Snoozes jobs of newer versions for one worker."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._first_at_ms: dict[str, int] = {}  # by task: first job of a newer version
        self._in_flight: dict[asyncio.Task[None], Job] = {}

    def snooze(self, job: Job, task: Task[..., Any]) -> None:
        level = logging.INFO if job.name in self._first_at_ms else logging.WARNING
        delay_ms = self._delay_ms(job)
        why = f"the arguments are of version {read_version(job.payload)}, its last worker knows version {task.version}"
        log.log(level, "Job %s (%s) is snoozed for %d s: %s.", job.key, job.name, delay_ms // 1000, why)
        work = asyncio.create_task(self._give_back(job, (job.started_at_ms or 0) + delay_ms, why))
        self._in_flight[work] = job
        work.add_done_callback(self._in_flight.pop)

    @property
    def jobs(self) -> list[Job]:
        """Jobs that are not returned yet. Thread-safe."""
        return list(self._in_flight.values())

    def _delay_ms(self, job: Job) -> int:
        now_ms = job.started_at_ms or 0  # the engine's clock
        waited_ms = now_ms - self._first_at_ms.setdefault(job.name, now_ms)
        return min(max(SOONEST_MS, waited_ms // 2), LATEST_MS)

    async def _give_back(self, job: Job, run_at_ms: int, why: str) -> None:
        """Set the new time of the job and release it.

        The time is set while the lease is held, because the job must not be taken in between.
        """

        async def snooze() -> str | Refusal:
            await self._service.update([Update(id=job.id, token=job.lease_token, note=why)])
            await self._service.edit([Edit(id=job.id, run_at_ms=run_at_ms, in_any_state=True)])
            return await self._release(job)

        failure = f"Could not release job {job.key}"
        try:
            answer = await RetryLoop(log, failure, (EngineUnavailable, EngineNotPermitted)).until_done(snooze)
        except Forbidden as refusal:  # its time cannot be changed: hold it for a while instead
            log.warning("Could not snooze job %s: %s. It is released in %g s.", job.key, refusal, SOONEST_MS / 1000)
            await asyncio.sleep(SOONEST_MS / 1000)
            answer = await self._release(job)
        if isinstance(answer, Refusal):
            log.warning("The engine refused the release of job %s (%s): %s", job.key, job.name, answer)

    async def _release(self, job: Job) -> str | Refusal:
        (answer,) = await self._service.release([LeaseRef(job.id, job.lease_token)])
        return answer

    async def close(self, patience_s: float) -> None:
        if self._in_flight:
            await asyncio.wait(self._in_flight, timeout=patience_s)
        for work in self._in_flight:
            work.cancel()
