"""Reconciler: gives back leases that the engine granted but whose holder never got the answer of the take."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from windlass.core.errors import Refusal, WindlassError
from windlass.core.ids import format_id
from windlass.core.job import Job
from windlass.core.operations import LeaseRef
from windlass.service import Service

log = logging.getLogger("windlass.background")

SETTLE_S = 1.0  # lets an event loop that was blocked read the answers that have arrived
REMEMBERED = 10_000  # leases that were given back
SHOWN = 10  # ids in a log line


class Reconciler:
    """Decides about unclaimed leases in the event loop that starts the holder's jobs.

    `holds` tells whether the holder has a lease. Leases that were given back are remembered: if a late answer still
    brings such a job, `admit` drops it, so a job never runs under a lease that was given back."""

    def __init__(self, service: Service, holds: Callable[[LeaseRef], bool]) -> None:
        self._service = service
        self._holds = holds
        self._returned: dict[LeaseRef, None] = {}  # oldest first
        self._deciding: asyncio.Task[None] | None = None

    def begin(self, unclaimed: Sequence[LeaseRef]) -> None:
        """Reconcile in a task, for a holder whose next heartbeat reports again the leases that could not be given
        back."""
        if unclaimed and self._deciding is None:
            self._deciding = asyncio.create_task(self.reconcile(unclaimed))
            self._deciding.add_done_callback(self._on_decided)

    async def reconcile(self, unclaimed: Sequence[LeaseRef]) -> None:
        """Wait a moment, then give back the leases that the holder still does not have."""
        if not unclaimed:
            return
        await asyncio.sleep(SETTLE_S)
        # No await between this check and the note in _returned: no answer can arrive in between.
        lost = [lease for lease in unclaimed if not self._holds(lease)]
        self._returned.update(dict.fromkeys(lost))
        for lease in list(self._returned)[:-REMEMBERED]:
            del self._returned[lease]
        if lost:
            answers = await self._service.release(lost)
            _log_returned(
                [lease for lease, answer in zip(lost, answers, strict=True) if not isinstance(answer, Refusal)]
            )

    def admit(self, jobs: list[Job]) -> list[Job]:
        """Return the jobs of a take without the jobs that were given back before its answer arrived."""
        if not self._returned:
            return jobs
        return [job for job in jobs if LeaseRef(job.id, job.lease_token) not in self._returned]

    def close(self) -> None:
        if self._deciding is not None:
            self._deciding.cancel()

    def _on_decided(self, task: asyncio.Task[None]) -> None:
        self._deciding = None
        if task.cancelled() or (error := task.exception()) is None:
            return
        log.warning(
            "Could not give back jobs that are leased to this worker without its knowledge. The next heartbeat tries "
            "again, and `windlass doctor --repair` gives them back too: %s",
            error,
            exc_info=None if isinstance(error, WindlassError) else error,
        )


def _log_returned(leases: Sequence[LeaseRef]) -> None:
    if not leases:
        return
    shown = ", ".join(format_id(lease.id) for lease in leases[:SHOWN])
    log.warning(
        "Gave back %d jobs that the engine had leased to this worker, because the answers with these jobs were lost "
        "(%s%s). No attempt was spent; any worker may take them.",
        len(leases),
        shown,
        ", ..." if len(leases) > SHOWN else "",
    )
