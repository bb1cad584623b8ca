"""Return of leases that their holder never heard of: the engine granted them, and the answer of the take was lost."""

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

SETTLE_S = 1.0  # an event loop that was blocked reads first what has arrived in the meantime
REMEMBERED = 10_000  # leases that were given back
SHOWN = 10  # ids in a line of the log


class Reconciler:
    """Decisions about unclaimed leases, made in the event loop in which the holder begins its jobs.

    `holds` says whether the holder has a lease in hand. What is given back is remembered: should a late answer still
    bring the job, `admit` drops it, so that a job never runs under a lease that was given back."""

    def __init__(self, service: Service, holds: Callable[[LeaseRef], bool]) -> None:
        self._service = service
        self._holds = holds
        self._returned: dict[LeaseRef, None] = {}  # the oldest first
        self._deciding: asyncio.Task[None] | None = None

    def begin(self, unclaimed: Sequence[LeaseRef]) -> None:
        """Reconcile beside other work, for a holder whose next heartbeat repeats what could not be given back."""
        if unclaimed and self._deciding is None:
            self._deciding = asyncio.create_task(self.reconcile(unclaimed))
            self._deciding.add_done_callback(self._decided)

    async def reconcile(self, unclaimed: Sequence[LeaseRef]) -> None:
        """Wait a moment, then give back what the holder still does not hold."""
        if not unclaimed:
            return
        await asyncio.sleep(SETTLE_S)
        # From here to the note that it was given back no answer can come in between.
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
        """The jobs of a take without those that were given back before its answer arrived."""
        if not self._returned:
            return jobs
        return [job for job in jobs if LeaseRef(job.id, job.lease_token) not in self._returned]

    def close(self) -> None:
        if self._deciding is not None:
            self._deciding.cancel()

    def _decided(self, task: asyncio.Task[None]) -> None:
        self._deciding = None
        if task.cancelled() or (error := task.exception()) is None:
            return
        log.warning(
            "Could not give back jobs that are leased to this worker without its knowledge: %s. The next heartbeat "
            "tries again; `windlass doctor --repair` does the same.",
            error,
            exc_info=None if isinstance(error, WindlassError) else error,
        )


def _log_returned(leases: Sequence[LeaseRef]) -> None:
    if not leases:
        return
    shown = ", ".join(format_id(lease.id) for lease in leases[:SHOWN])
    log.warning(
        "Gave back %d jobs that the engine had leased here, because the answers that should have brought them were "
        "lost (%s%s). No attempt was spent; any worker may take them.",
        len(leases),
        shown,
        ", ..." if len(leases) > SHOWN else "",
    )
