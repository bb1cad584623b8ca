"""Scheduled jobs become takeable when their time has come (takers do it too; this is for queues without a taker), and
schedules that are due make their jobs."""

from __future__ import annotations

import asyncio
import logging

from ..core.errors import EngineFull
from ..service import Service
from .loop import Tick

log = logging.getLogger("windlass.loops")

FULL_PAUSE_S = 0.25


class Scheduler:
    name = "scheduler"

    async def tick(self, service: Service) -> Tick:
        moved = await service.promote()
        try:
            fired = await service.fire()
        except EngineFull as error:  # what is there must still be moved by the other loops
            log.warning("Schedules that are due wait: %s", error)
            await asyncio.sleep(FULL_PAUSE_S)  # they stay due, so nothing else would hold up the next turn
            fired = moved._replace(done=0)
        instants = [step.next_at_ms for step in (moved, fired) if step.next_at_ms is not None]
        return Tick(moved.done + fired.done, fired.now_ms, min(instants, default=None))
