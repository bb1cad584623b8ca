"""The drain at the end of a run: all remaining jobs are run until none waits or runs, and all flows have finished."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Collection

from windlass.service import Service

from ..checks import Guarantees
from .context import CallRefused, CallUnanswered, ClientContext
from .flow_client import resume_stopped_flows
from .front_ends.engine import EngineWorker, call_engine
from .worker import WorkerProfile, record_report, take_jobs

PAUSE_S = 0.05
QUEUES_AT_ONCE = 50
LONG_LIVED_QUEUES = Guarantees().long_lived_queues


async def drain(
    context: ClientContext, service: Service, *, excluded: Collection[str] = (), limit_s: float = 60.0
) -> bool:
    """Take and finish all jobs, wait until leases of other workers expire, and resume flows until all have finished.
    Return False after the time limit.

    The background loops must run in some process. Other clients drain the queues in `excluded`."""
    give_up_at_s = time.monotonic() + limit_s
    worker = EngineWorker(service)
    while time.monotonic() < give_up_at_s:
        try:
            names = await call_engine(service.queues())
            queues = tuple(queue for queue in names if queue not in LONG_LIVED_QUEUES)
            if await _is_empty(service, queues):
                if not await resume_stopped_flows(context, service):
                    return True
                continue
            if await _finish_batch(context, worker, tuple(queue for queue in queues if queue not in excluded)):
                continue
        except (CallRefused, CallUnanswered):
            pass
        await asyncio.sleep(PAUSE_S)
    return False


async def _is_empty(service: Service, queues: tuple[str, ...]) -> bool:
    stats = await call_engine(service.stats(queues)) if queues else []
    return not any(found.queued + found.scheduled + found.waiting + found.suspended + found.running for found in stats)


async def _finish_batch(context: ClientContext, worker: EngineWorker, queues: tuple[str, ...]) -> int:
    """Finish one batch of jobs from all queues and return how many."""
    count = 0
    for first in range(0, len(queues), QUEUES_AT_ONCE):
        profile = WorkerProfile(queues=queues[first : first + QUEUES_AT_ONCE], most=100, lease_ms=30_000, wait_ms=0)
        for lease in await take_jobs(context, worker, profile):
            await record_report(context, worker, "finish", lease, functools.partial(worker.finish, lease))
            count += 1
    return count
