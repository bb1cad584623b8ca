"""Runner of the background loops of one process. Any number of processes may run them: every step is atomic in the
engine."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Sequence

from windlass.core.errors import WindlassError
from windlass.retry_loop import RetryLoop
from windlass.service import Service

from .janitor import Janitor
from .liveness import Liveness
from .loop import Loop
from .recoverer import Recoverer
from .scheduler import Scheduler

log = logging.getLogger("windlass.background")

LONGEST_PAUSE_S = (
    60.0  # wakeups for earlier work go to several processes; if all of these die, others act after this time
)
SHORTEST_PAUSE_S = 0.01


def all_loops() -> list[Loop]:
    return [Scheduler(), Recoverer(), Janitor()]


async def turn(service: Service, loops: Sequence[Loop]) -> float:
    """Run each loop once. Return the number of seconds until the next turn."""
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
    """Run the loops until cancelled, in one task per partition: errors in one partition do not stop the others."""
    await RetryLoop(log, "Could not start the background loops", WindlassError).until_done(service.store.open)
    beat = (liveness or Liveness()).beat
    async with asyncio.TaskGroup() as group:
        for partition in range(service.store.partitions):
            work = _run_within(service.within(partition), make_loops(), functools.partial(beat, partition))
            group.create_task(work, name=f"windlass-loops-{partition}")


async def _run_within(service: Service, loops: Sequence[Loop], beat: Callable[[float], None]) -> None:
    """Run the loops of one partition. An engine error is logged once per turn; the loops continue."""

    async def turn_and_wait() -> None:
        pause_s = await turn(service, loops)
        beat(pause_s)
        await service.listen(for_s=pause_s)

    await RetryLoop(log, "Could not run the background loops", WindlassError).forever(turn_and_wait)
