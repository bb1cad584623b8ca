"""Scheduled jobs become takeable when their time has come, and work on large families goes on. Takers do it too; this
is for queues without a taker."""

from __future__ import annotations

from ..service import Service
from .loop import Tick

STEPS_PER_TURN = 10  # of what is more than one step: many due jobs, a large family


class Scheduler:
    name = "scheduler"

    async def tick(self, service: Service) -> Tick:
        done = 0
        for _ in range(STEPS_PER_TURN):
            step = await service.promote()
            done += step.done
            if step.next_at_ms is None or step.next_at_ms > step.now_ms:
                break
        return Tick(done, step.now_ms, step.next_at_ms)
