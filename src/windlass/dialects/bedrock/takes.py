"""Takes for clients. A client's job has no lease that ends and no worker that beats: if the answer of a take is lost
on its way from the engine, only this process can know that no client got the job."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from windlass.background.reconciler import Reconciler
from windlass.core.errors import WindlassError
from windlass.core.operations import Filter, Held, Take, Taken
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
        self._under_way: set[bytes] = set()  # holders
        self._doubtful: dict[bytes, int] = {}  # holder -> checks that are left
        self._delivered: dict[bytes, list[Held]] = {}  # of doubtful holders
        self._reconciler = Reconciler(service, self._is_delivered)
        self._is_doubt_due = False
        self._checking: asyncio.Task[None] | None = None
        service.store.hear_interruptions(self._doubt)

    async def take(self, wants: Filter, most: int, wait_ms: int) -> Taken:
        holder = anonymous_holder()
        self._under_way.add(holder)
        try:
            taken = await self._service.take(
                Take(queues=(QUEUE,), most=most, wants=wants, worker=holder, wait_ms=wait_ms)
            )
            if holder in self._doubtful:
                taken = Taken(
                    self._reconciler.admit(taken.jobs), taken.next_due_at_ms, taken.started_before, taken.used_up
                )
                self._delivered[holder] = [Held(job.id, job.lease_token) for job in taken.jobs]
            return taken
        finally:
            self._under_way.discard(holder)

    def close(self) -> None:
        if self._checking is not None:
            self._checking.cancel()

    def _doubt(self) -> None:
        """A connection to the engine broke: any take under way may have jobs of which it will never hear. Each call on
        that connection says so; once is enough."""
        if self._under_way and not self._is_doubt_due:
            self._is_doubt_due = True
            asyncio.get_running_loop().call_soon(self._begin_checks)

    def _begin_checks(self) -> None:
        self._is_doubt_due = False
        self._doubtful.update(dict.fromkeys(self._under_way, CHECKS))
        if self._checking is None:
            self._checking = asyncio.create_task(self._check())
            self._checking.add_done_callback(self._checked)

    def _checked(self, task: asyncio.Task[None]) -> None:
        self._checking = None
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("The search for jobs that no client got has ended.", exc_info=error)

    async def _check(self) -> None:
        while self._doubtful:
            await asyncio.sleep(CHECK_EVERY_S)
            holders = list(self._doubtful)
            try:
                await self._reconciler.reconcile(await self._unclaimed(holders))
            except WindlassError as error:
                log.warning("Cannot give back jobs that no client got: %s. Trying again.", error)
            else:
                self._count_check(holders)

    async def _unclaimed(self, holders: Sequence[bytes]) -> list[Held]:
        known = [(holder, [lease.id for lease in self._delivered.get(holder, ())]) for holder in holders]
        return await self._service.unclaimed(known)

    def _count_check(self, holders: Sequence[bytes]) -> None:
        for holder in holders:
            self._doubtful[holder] -= 1
            if self._doubtful[holder] == 0:
                del self._doubtful[holder]
                self._delivered.pop(holder, None)

    def _is_delivered(self, lease: Held) -> bool:
        return any(lease in leases for leases in self._delivered.values())
