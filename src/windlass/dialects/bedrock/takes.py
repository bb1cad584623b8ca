"""Takes for clients, and the release of jobs whose take lost its reply.

A job of a client has no lease that expires and no worker that sends heartbeats. If the engine's reply to a take is
lost, only this process can know that no client got the job."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from windlass.background.reconciler import Reconciler
from windlass.core.errors import WindlassError
from windlass.core.operations import Filter, LeaseRef, Take, Taken
from windlass.service import Service
from windlass.store.records.holder_ids import anonymous_holder

log = logging.getLogger("windlass.bedrock")

CHECK_EVERY_S = 2.5  # the engine does not report younger leases
CHECKS = 3  # the engine may run a command some time after its connection broke


class TrackedTakes:
    """Takes with a separate holder each, which the engine stores with the jobs.

    After a connection to the engine breaks, the engine is asked for the jobs of the takes that were pending at that
    moment. Jobs that no client got are released."""

    def __init__(self, service: Service, job_timeout_ms: int = 0) -> None:
        """`job_timeout_ms`: for jobs without a timeout of their own; 0: none."""
        self._service = service
        self._job_timeout_ms = job_timeout_ms
        self._pending_holders: set[bytes] = set()
        self._checks_left: dict[bytes, int] = {}  # by holder
        self._delivered: dict[bytes, list[LeaseRef]] = {}  # of the holders in `_checks_left`
        self._reconciler = Reconciler(service, self._is_delivered)
        self._is_check_scheduled = False
        self._check_task: asyncio.Task[None] | None = None
        service.store.on_interruption(self._on_interruption)

    async def take(self, queues: tuple[str, ...], wants: Filter, most: int, wait_ms: int) -> Taken:
        holder = anonymous_holder()
        self._pending_holders.add(holder)
        try:
            taken = await self._service.take(
                Take(
                    queues=queues,
                    most=most,
                    wants=wants,
                    worker=holder,
                    wait_ms=wait_ms,
                    fallback_lease_ms=self._job_timeout_ms,
                )
            )
            if holder in self._checks_left:
                taken = Taken(
                    self._reconciler.admit(taken.jobs), taken.next_due_at_ms, taken.started_before, taken.used_up
                )
                self._delivered[holder] = [LeaseRef(job.id, job.lease_token) for job in taken.jobs]
            return taken
        finally:
            self._pending_holders.discard(holder)

    def close(self) -> None:
        if self._check_task is not None:
            self._check_task.cancel()

    def _on_interruption(self) -> None:
        """Schedule checks after a connection to the engine broke: pending takes may hold jobs without knowing it.

        Called by each command on that connection. One check covers all of them."""
        if self._pending_holders and not self._is_check_scheduled:
            self._is_check_scheduled = True
            asyncio.get_running_loop().call_soon(self._start_checks)

    def _start_checks(self) -> None:
        self._is_check_scheduled = False
        self._checks_left.update(dict.fromkeys(self._pending_holders, CHECKS))
        if self._check_task is None:
            self._check_task = asyncio.create_task(self._run_checks())
            self._check_task.add_done_callback(self._on_check_done)

    def _on_check_done(self, task: asyncio.Task[None]) -> None:
        self._check_task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error(
                "The check for jobs that no client got failed. It runs again after the next broken connection.",
                exc_info=error,
            )

    async def _run_checks(self) -> None:
        while self._checks_left:
            await asyncio.sleep(CHECK_EVERY_S)
            holders = list(self._checks_left)
            try:
                await self._reconciler.reconcile(await self._unclaimed(holders))
            except WindlassError as error:
                log.warning("Cannot release jobs that no client got: %s. Trying again.", error)
            else:
                self._count_check(holders)

    async def _unclaimed(self, holders: Sequence[bytes]) -> list[LeaseRef]:
        known = [(holder, [lease.id for lease in self._delivered.get(holder, ())]) for holder in holders]
        return await self._service.unclaimed(known)

    def _count_check(self, holders: Sequence[bytes]) -> None:
        for holder in holders:
            self._checks_left[holder] -= 1
            if self._checks_left[holder] == 0:
                del self._checks_left[holder]
                self._delivered.pop(holder, None)

    def _is_delivered(self, lease: LeaseRef) -> bool:
        return any(lease in leases for leases in self._delivered.values())
