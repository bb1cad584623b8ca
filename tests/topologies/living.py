"""Jobs that flow while something happens to the engine, and what is judged afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from tests.support.witness import Witness, drain, produce, work
from windlass.background import runner
from windlass.core.errors import StaleLease, UnknownJob, WrongState
from windlass.core.job import Durability
from windlass.core.operations import Take
from windlass.service import Service
from windlass.store.store import Store

QUEUES = tuple(f"q{number}" for number in range(24))  # in most of 16 partitions
LIMIT_S = 40.0


async def live_through(
    store: Store, trouble: Callable[[], Awaitable[None]], durability: Durability | None = None
) -> Witness:
    """Producers, workers and the loops at work; trouble in the middle; then all that is left is worked off."""
    service, witness = Service(store), Witness()
    witness.expected = (StaleLease, UnknownJob, WrongState)  # a failover may forget a lease, or what was not durable
    async with store, asyncio.timeout(LIMIT_S):
        loops = asyncio.create_task(runner.run(service))
        tasks = [asyncio.create_task(produce(service, witness, QUEUES, durability)) for _ in range(3)]
        tasks += [asyncio.create_task(work(service, witness, QUEUES)) for _ in range(3)]
        await _progress(witness, tasks)
        await trouble()
        await _progress(witness, tasks)
        witness.is_over = True
        await asyncio.gather(*tasks)
        await drain(service, witness, QUEUES)
        loops.cancel()
        await asyncio.wait({loops})
    return witness


async def _progress(witness: Witness, tasks: Sequence[asyncio.Task[None]], jobs: int = 50) -> None:
    """Until so many more are accepted and finished: everybody carries on."""
    goal = len(witness.accepted) + jobs, len(witness.finished) + jobs
    while len(witness.accepted) < goal[0] or len(witness.finished) < goal[1]:
        done, _ = await asyncio.wait(tasks, timeout=0.01, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            await task


async def wait_for_one(service: Service, queues: tuple[str, ...]) -> bytes:
    """A taker that waits, and carries on with waiting whatever happens meanwhile."""
    (job,) = (await service.take(Take(queues=queues, wait_ms=30_000))).jobs
    return job.id
