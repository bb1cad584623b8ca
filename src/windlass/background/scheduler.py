"""Scheduled jobs become takeable when their time has come, and work on large families goes on (takers do it too; this
is for queues without a taker); schedules that are due make their jobs."""

from __future__ import annotations

import asyncio
import logging

from windlass.core.errors import EngineFull
from windlass.service import Service

from .loop import Tick

log = logging.getLogger("windlass.background")

FULL_PAUSE_S = 0.25
STEPS_PER_TURN = 10  # of what is more than one step: many due jobs, a large family


class Scheduler:
    name = "scheduler"

    async def tick(self, service: Service) -> Tick:
        done = 0
        for _ in range(STEPS_PER_TURN):
            moved = await service.promote()
            done += moved.done
            if moved.next_at_ms is None or moved.next_at_ms > moved.now_ms:
                break
        try:
            fired = await service.fire()
        except EngineFull as error:  # what is there must still be moved by the other loops
            log.warning("Schedules that are due wait: %s", error)
            await asyncio.sleep(FULL_PAUSE_S)  # they stay due, so nothing else would hold up the next turn
            fired = moved._replace(done=0)
        instants = [step.next_at_ms for step in (moved, fired) if step.next_at_ms is not None]
        return Tick(done + fired.done, fired.now_ms, min(instants, default=None))
