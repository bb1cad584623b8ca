"""The end of a run: whatever is left is worked off, until nothing waits and nothing runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection

from windlass.service import Service

from .by_engine import EngineBench
from .life import Life, Refused, Unanswered
from .working import Conduct, taken, told

PAUSE_S = 0.05


async def drain(life: Life, service: Service, *, spared: Collection[str] = (), limit_s: float = 60.0) -> bool:
    """Takes and finishes all there is, and waits for leases of others to run out. False: it took too long. The loops
    must be running somewhere. `spared`: queues that somebody else works off."""
    give_up_at_s = time.monotonic() + limit_s
    bench = EngineBench(service)
    while time.monotonic() < give_up_at_s:
        try:
            queues = tuple(await service.queues())
            if await _is_empty(service, queues):
                return True
            await _take_all(life, bench, tuple(one for one in queues if one not in spared))
        except (Refused, Unanswered):
            pass
        await asyncio.sleep(PAUSE_S)
    return False


async def _is_empty(service: Service, queues: tuple[str, ...]) -> bool:
    found = await service.stats(queues) if queues else []
    return not any(one.queued + one.scheduled + one.waiting + one.running for one in found)


async def _take_all(life: Life, bench: EngineBench, queues: tuple[str, ...]) -> None:
    for first in range(0, len(queues), 50):
        conduct = Conduct(queues=queues[first : first + 50], most=100, lease_ms=30_000, wait_ms=0)
        while jobs := await taken(life, bench, conduct):
            for held in jobs:
                await told(life, bench, "finish", held, lambda held=held: bench.finish(held))  # type: ignore[misc]
