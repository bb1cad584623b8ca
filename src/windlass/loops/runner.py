"""Runs the loops of one process. Any number of processes may do so at once: every step is atomic in the engine."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from ..core.errors import WindlassError
from ..service import Service
from .janitor import Janitor
from .loop import Loop
from .recoverer import Recoverer
from .scheduler import Scheduler

log = logging.getLogger("windlass.loops")

LONGEST_PAUSE_S = 60.0  # a process that was rung and died leaves its work for the others until then
SHORTEST_PAUSE_S = 0.01
TROUBLE_PAUSE_S = 1.0


def all_loops() -> list[Loop]:
    return [Scheduler(), Recoverer(), Janitor()]


async def turn(service: Service, loops: Sequence[Loop]) -> float:
    """Each loop once. Answers how many seconds may pass until the next turn."""
    pause_s = LONGEST_PAUSE_S
    for loop in loops:
        tick = await loop.tick(service)
        if tick.done:
            log.debug("%s: %d", loop.name, tick.done)
        if tick.next_at_ms is not None:
            pause_s = min(pause_s, (tick.next_at_ms - tick.now_ms) / 1000)
    return max(pause_s, SHORTEST_PAUSE_S)


async def run(service: Service, loops: Sequence[Loop] | None = None) -> None:
    """Until cancelled. Trouble with the engine is said once per turn and survived."""
    chosen = all_loops() if loops is None else loops
    while True:
        try:
            pause_s = await turn(service, chosen)
            await service.listen(for_s=pause_s)
        except WindlassError as error:
            log.warning("The loops could not run (%s); trying again.", error)
            await asyncio.sleep(TROUBLE_PAUSE_S)
