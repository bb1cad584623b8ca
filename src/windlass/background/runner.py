"""Runs the loops of one process. Any number of processes may do so at once: every step is atomic in the engine."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Sequence

from windlass.core.errors import WindlassError
from windlass.service import Service

from .janitor import Janitor
from .liveness import Liveness
from .loop import Loop
from .recoverer import Recoverer
from .scheduler import Scheduler

log = logging.getLogger("windlass.background")

LONGEST_PAUSE_S = 60.0  # several are told of what is due earlier; should all of them die, the others come then
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


async def run(
    service: Service, make_loops: Callable[[], Sequence[Loop]] = all_loops, liveness: Liveness | None = None
) -> None:
    """Until cancelled, in every partition for itself: trouble in one stops nothing in another."""
    await _open(service)
    beat = (liveness or Liveness()).beat
    async with asyncio.TaskGroup() as group:
        for partition in range(service.store.partitions):
            work = _run_within(service.within(partition), make_loops(), functools.partial(beat, partition))
            group.create_task(work, name=f"windlass-loops-{partition}")


async def _open(service: Service) -> None:
    while True:
        try:
            await service.store.open()
            return
        except WindlassError as error:
            log.warning("The loops cannot start (%s); trying again.", error)
            await asyncio.sleep(TROUBLE_PAUSE_S)


async def _run_within(service: Service, loops: Sequence[Loop], beat: Callable[[float], None]) -> None:
    """Trouble with the engine is said once per turn and survived."""
    while True:
        try:
            pause_s = await turn(service, loops)
            beat(pause_s)
            await service.listen(for_s=pause_s)
        except WindlassError as error:
            log.warning("The loops could not run (%s); trying again.", error)
            await asyncio.sleep(TROUBLE_PAUSE_S)
