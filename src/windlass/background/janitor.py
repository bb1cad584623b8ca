"""Janitor: removes ended jobs after their retention, fails expired jobs, removes empty queues, and stops takes in
partitions that migrate between two nodes of a cluster."""

from __future__ import annotations

import logging

from windlass.service import Service

from .loop import Tick

log = logging.getLogger("windlass.background")

SWEEP_EVERY_MS = 600_000
SLOTS_EVERY_MS = 60_000


class Janitor:
    name = "janitor"

    def __init__(self) -> None:
        self._cursor = "0"
        self._sweep_at_ms = 0
        self._slots_at_ms = 0
        self._torn: list[int] = []

    async def tick(self, service: Service) -> Tick:
        step = await service.clean()
        done = step.done
        if step.now_ms >= self._sweep_at_ms:
            done += await self._sweep(service, step.now_ms)
        due = [self._sweep_at_ms] if step.next_at_ms is None else [self._sweep_at_ms, step.next_at_ms]
        if service.store.topology.has_slots and 0 in service.partition_scope:
            due.append(await self._check_slots(service, step.now_ms))
        return Tick(done, step.now_ms, min(due))

    async def _check_slots(self, service: Service, now_ms: int) -> int:
        """Check the slots of all partitions, as part of the first partition's maintenance. Return the time of the next
        check."""
        if now_ms >= self._slots_at_ms:
            torn = await service.stop_torn(self._torn)
            if torn and torn != self._torn:
                log.warning(
                    "Slots of partitions %s migrate key by key. Takes from them stop until the migration ends.",
                    torn,
                )
            self._torn = torn
            self._slots_at_ms = now_ms + SLOTS_EVERY_MS
        return self._slots_at_ms

    async def _sweep(self, service: Service, now_ms: int) -> int:
        """Scan one page of queues. After the last page the scan pauses."""
        swept = await service.sweep(self._cursor)
        self._cursor = swept.cursor
        done = swept.forgotten + len(swept.to_relane)
        if self._cursor == "0" and not swept.to_relane:
            self._sweep_at_ms = now_ms + SWEEP_EVERY_MS
            for partition in service.partition_scope:
                done += await service.rematch(partition)
        return done
