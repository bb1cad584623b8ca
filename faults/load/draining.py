"""The end of a run: whatever is left is worked off, until nothing waits and nothing runs."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Collection

from windlass.service import Service

from ..judging import Promises
from .by_engine import EngineBench, asked
from .life import Life, Refused, Unanswered
from .working import Conduct, taken, told

PAUSE_S = 0.05
QUEUES_AT_ONCE = 50
LASTING = Promises().lasting


async def drain(life: Life, service: Service, *, spared: Collection[str] = (), limit_s: float = 60.0) -> bool:
    """Takes and finishes all there is, and waits for leases of others to run out. False: it took too long. The loops
    must be running somewhere. `spared`: queues that somebody else works off."""
    give_up_at_s = time.monotonic() + limit_s
    bench = EngineBench(service)
    while time.monotonic() < give_up_at_s:
        try:
            queues = tuple(one for one in await asked(service.queues()) if one not in LASTING)
            if await _is_empty(service, queues):
                return True
            mine = tuple(one for one in queues if one not in spared)
            if await _worked_off(life, bench, mine):
                continue
        except (Refused, Unanswered):
            pass
        await asyncio.sleep(PAUSE_S)
    return False


async def _is_empty(service: Service, queues: tuple[str, ...]) -> bool:
    found = await asked(service.stats(queues)) if queues else []
    return not any(one.queued + one.scheduled + one.waiting + one.running for one in found)


async def _worked_off(life: Life, bench: EngineBench, queues: tuple[str, ...]) -> int:
    """How many, of one lot of all queues."""
    count = 0
    for first in range(0, len(queues), QUEUES_AT_ONCE):
        conduct = Conduct(queues=queues[first : first + QUEUES_AT_ONCE], most=100, lease_ms=30_000, wait_ms=0)
        for held in await taken(life, bench, conduct):
            await told(life, bench, "finish", held, functools.partial(bench.finish, held))
            count += 1
    return count
