"""Scheduler: queues scheduled jobs that are due, continues work on jobs with many dependencies, and fires due
schedules. Takers do the first two as well; this loop covers queues without a taker."""

from __future__ import annotations

import asyncio
import logging

from windlass.core.errors import EngineFull
from windlass.service import Service

from .loop import Tick

log = logging.getLogger("windlass.background")

FULL_PAUSE_S = 0.25
STEPS_PER_TURN = 10  # for work of more than one step: many due jobs, many dependencies


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
        except EngineFull as error:  # the other loops must still process the stored jobs
            log.warning("Due schedules do not fire until the engine has memory again: %s", error)
            await asyncio.sleep(
                FULL_PAUSE_S
            )  # schedules stay due, so without a pause the next turn would follow at once
            fired = moved._replace(done=0)
        instants = [step.next_at_ms for step in (moved, fired) if step.next_at_ms is not None]
        return Tick(done + fired.done, fired.now_ms, min(instants, default=None))
