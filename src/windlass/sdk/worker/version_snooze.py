"""Jobs of a newer version than this worker knows go back without an attempt spent, to be offered again a little later:
to this worker, or to one that knows them. The longer it has met such jobs, the longer they are put off."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from windlass.core.errors import EngineNotPermitted, EngineUnavailable, Forbidden, Refusal
from windlass.core.job import Job
from windlass.core.operations import Edit, LeaseRef, Update
from windlass.sdk.tasks.task import Task
from windlass.sdk.tasks.versions import read_version
from windlass.service import Service

log = logging.getLogger("windlass.worker")

SOONEST_MS = 5_000
LATEST_MS = 60_000
RETRY_PAUSE_S = 1.0


class VersionSnooze:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._first_at_ms: dict[str, int] = {}  # by task: when this worker first met a newer one
        self._in_flight: dict[asyncio.Task[None], Job] = {}

    def snooze(self, job: Job, task: Task[..., Any]) -> None:
        level = logging.INFO if job.name in self._first_at_ms else logging.WARNING
        delay_ms = self._delay_ms(job)
        why = f"the arguments are of version {read_version(job.payload)}, its last worker knows version {task.version}"
        log.log(level, "Job %s (%s) is offered again in %d s: %s.", job.key, job.name, delay_ms // 1000, why)
        work = asyncio.create_task(self._give_back(job, (job.started_at_ms or 0) + delay_ms, why))
        self._in_flight[work] = job
        work.add_done_callback(self._in_flight.pop)

    @property
    def jobs(self) -> list[Job]:
        """Jobs that are not given back yet. May be asked in any thread."""
        return list(self._in_flight.values())

    def _delay_ms(self, job: Job) -> int:
        now_ms = job.started_at_ms or 0  # the engine's clock
        waited_ms = now_ms - self._first_at_ms.setdefault(job.name, now_ms)
        return min(max(SOONEST_MS, waited_ms // 2), LATEST_MS)

    async def _give_back(self, job: Job, run_at_ms: int, why: str) -> None:
        """Its new time is set while it is still ours: it must not be takeable in between."""
        while True:
            try:
                await self._service.update([Update(id=job.id, token=job.lease_token, note=why)])
                await self._service.edit([Edit(id=job.id, run_at_ms=run_at_ms, in_any_state=True)])
                (answer,) = await self._service.release([LeaseRef(job.id, job.lease_token)])
                break
            except Forbidden as refusal:  # its time stays as it is: it is kept for a while instead
                log.warning("Job %s cannot be put off: %s", job.key, refusal)
                await asyncio.sleep(SOONEST_MS / 1000)
                (answer,) = await self._service.release([LeaseRef(job.id, job.lease_token)])
                break
            except (EngineUnavailable, EngineNotPermitted) as error:
                log.warning("Job %s cannot be given back (%s); still trying.", job.key, error)
                await asyncio.sleep(RETRY_PAUSE_S)
        if isinstance(answer, Refusal):
            log.warning("Job %s (%s) could not be given back: %s", job.key, job.name, answer)

    async def close(self, patience_s: float) -> None:
        if self._in_flight:
            await asyncio.wait(self._in_flight, timeout=patience_s)
        for work in self._in_flight:
            work.cancel()
