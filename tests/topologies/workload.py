"""Workload that runs while the engine fails over or moves slots, for later checks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from tests.support.answer_log import AnswerLog, drain, produce, work
from windlass.background import runner
from windlass.core.errors import StaleLease, UnknownJob, WrongState
from windlass.core.job import Durability
from windlass.core.operations import Take
from windlass.service import Service
from windlass.store.store import Store

QUEUES = tuple(f"q{number}" for number in range(24))  # in most of 16 partitions
LIMIT_S = 40.0


async def run_through(
    store: Store, trouble: Callable[[], Awaitable[None]], durability: Durability | None = None
) -> AnswerLog:
    """Run producers, workers and the background loops, with trouble in the middle; then work off the remaining jobs."""
    service, log = Service(store), AnswerLog()
    # A failover may lose a lease, or jobs that were not durable.
    log.expected = (StaleLease, UnknownJob, WrongState)
    async with store, asyncio.timeout(LIMIT_S):
        loops = asyncio.create_task(runner.run(service))
        tasks = [asyncio.create_task(produce(service, log, QUEUES, durability)) for _ in range(3)]
        tasks += [asyncio.create_task(work(service, log, QUEUES)) for _ in range(3)]
        await _progress(log, tasks)
        await trouble()
        await _progress(log, tasks)
        log.is_over = True
        await asyncio.gather(*tasks)
        await drain(service, log, QUEUES)
        loops.cancel()
        await asyncio.wait({loops})
    return log


async def _progress(log: AnswerLog, tasks: Sequence[asyncio.Task[None]], jobs: int = 50) -> None:
    """Wait until `jobs` more jobs are accepted and finished, which shows that all tasks continue."""
    goal = len(log.accepted) + jobs, len(log.finished) + jobs
    while len(log.accepted) < goal[0] or len(log.finished) < goal[1]:
        done, _ = await asyncio.wait(tasks, timeout=0.01, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            await task


async def wait_for_job(service: Service, queues: tuple[str, ...]) -> bytes:
    """Take a job, and wait for it through all trouble."""
    (job,) = (await service.take(Take(queues=queues, wait_ms=30_000))).jobs
    return job.id
