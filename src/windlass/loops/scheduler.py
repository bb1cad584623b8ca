"""Scheduled jobs become takeable when their time has come. Takers do it too; this is for queues without a taker."""

from __future__ import annotations

from ..service import Service
from .loop import Tick


class Scheduler:
    name = "scheduler"

    async def tick(self, service: Service) -> Tick:
        step = await service.promote()
        return Tick(step.done, step.now_ms, step.next_at_ms)
