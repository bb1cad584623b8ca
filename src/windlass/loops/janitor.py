"""Ended jobs leave when their retention is over; waiting jobs that expired fail; empty queues are forgotten."""

from __future__ import annotations

from ..service import Service
from .loop import Tick

SWEEP_EVERY_MS = 600_000


class Janitor:
    name = "janitor"

    def __init__(self) -> None:
        self._cursor = "0"
        self._sweep_at_ms = 0

    async def tick(self, service: Service) -> Tick:
        step = await service.clean()
        done = step.done
        if step.now_ms >= self._sweep_at_ms:
            done += await self._sweep(service, step.now_ms)
        due = [self._sweep_at_ms] if step.next_at_ms is None else [self._sweep_at_ms, step.next_at_ms]
        return Tick(done, step.now_ms, min(due))

    async def _sweep(self, service: Service, now_ms: int) -> int:
        """One page of queues; the walk pauses when it is through."""
        swept = await service.sweep(self._cursor)
        self._cursor = swept.cursor
        done = swept.forgotten + len(swept.to_relane)
        if self._cursor == "0" and not swept.to_relane:
            self._sweep_at_ms = now_ms + SWEEP_EVERY_MS
            done += await service.rematch(0)
        return done
