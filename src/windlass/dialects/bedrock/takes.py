"""Takes for clients. A client's job has no lease that ends and no worker that beats: if the answer of a take is lost
on its way from the engine, only this process can know that no client got the job."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from windlass.background.reconciler import Reconciler
from windlass.core.errors import WindlassError
from windlass.core.operations import Filter, LeaseRef, Take, Taken
from windlass.service import Service
from windlass.store.waiting.holder_ids import anonymous_holder

from .verbs import QUEUE

log = logging.getLogger("windlass.bedrock")

CHECK_EVERY_S = 2.5  # younger leases are not judged
CHECKS = 3  # a call that was sent before the connection broke may be carried out a little later


class TrackedTakes:
    """Each take has a holder of its own, which the engine keeps with the job. When connections to the engine break, the
    engine is asked what the takes of that moment hold there; what no client got is given back."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._pending_holders: set[bytes] = set()  # holders
        self._checks_left: dict[bytes, int] = {}  # holder -> checks that are left
        self._delivered: dict[bytes, list[LeaseRef]] = {}  # of doubtful holders
        self._reconciler = Reconciler(service, self._is_delivered)
        self._is_check_scheduled = False
        self._check_task: asyncio.Task[None] | None = None
        service.store.on_interruption(self._on_interruption)

    async def take(self, wants: Filter, most: int, wait_ms: int) -> Taken:
        holder = anonymous_holder()
        self._pending_holders.add(holder)
        try:
            taken = await self._service.take(
                Take(queues=(QUEUE,), most=most, wants=wants, worker=holder, wait_ms=wait_ms)
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
        """A connection to the engine broke: any take under way may have jobs of which it will never hear. Each call on
        that connection says so; once is enough."""
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
            log.error("The search for jobs that no client got has ended.", exc_info=error)

    async def _run_checks(self) -> None:
        while self._checks_left:
            await asyncio.sleep(CHECK_EVERY_S)
            holders = list(self._checks_left)
            try:
                await self._reconciler.reconcile(await self._unclaimed(holders))
            except WindlassError as error:
                log.warning("Cannot give back jobs that no client got: %s. Trying again.", error)
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
