"""Orphan recovery: frees the jobs of a dead worker process at once, before their leases expire."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

import msgspec

from windlass.core.errors import EngineNotPermitted, EngineUnavailable, Refusal, UnknownWorker, WindlassError
from windlass.core.job import Job, Timeline
from windlass.core.operations import Fail, Worker
from windlass.processes.supervision_policy import describe_exit
from windlass.retry_loop import RetryLoop
from windlass.sdk.tasks.task import MAX_CRASHES
from windlass.sdk.worker.outcome import AttemptFailed, make_report
from windlass.service import Service
from windlass.settings import Settings

from .crashes import is_first_crash, make_crash
from .protocol import LoadedMessage

log = logging.getLogger("windlass.supervisor")
PAGE = 100


class DeadWorker(NamedTuple):
    """A worker process that has ended, as its parent knows it."""

    id: bytes
    pid: int
    exit_code: int  # negative: the signal
    was_killed: bool  # by the parent or on request, so no job is at fault
    loaded: LoadedMessage


async def recover_dead_worker(dead: DeadWorker, connect: Callable[[Settings], Awaitable[Service]]) -> None:
    """Free the jobs of a dead worker, as soon as its engine can be reached."""
    failure = f"Could not recover the jobs of worker process {dead.pid}"
    attempts = RetryLoop(log, failure, (EngineUnavailable, EngineNotPermitted))
    try:
        await attempts.until_done(lambda: _recover_jobs(dead, connect))
    except WindlassError:
        log.exception("%s. They run again when their leases have expired.", failure)


async def _recover_jobs(dead: DeadWorker, connect: Callable[[Settings], Awaitable[Service]]) -> None:
    service = await connect(dead.loaded.settings)
    if dead.was_killed:
        await release_jobs(service, dead.id)
        return
    crash = f"Worker process {dead.pid} {describe_exit(dead.exit_code)}."
    if freed := await recover_orphans(service, dead.id, dead.loaded.tasks, crash):
        log.warning(
            "Worker process %d held %d jobs. Each spends an attempt and is retried while tries are left.",
            dead.pid,
            freed,
        )


async def recover_orphans(service: Service, worker: bytes, max_crashes: Mapping[str, int], message: str) -> int:
    """Fail the current attempt of each job that the dead worker held. Returns the number of jobs.

    Which of the jobs crashed the process is not known. Each of them spends an attempt, so that the job at fault cannot
    crash workers forever.
    """
    recovered = 0
    while held := await _list_held(service, worker):
        answers = await service.fail([_make_failure(timeline, max_crashes, message) for timeline in held])
        freed = sum(not isinstance(answer, Refusal) for answer in answers)
        recovered += freed
        if not freed:
            break
    await release_jobs(service, worker)
    return recovered


async def release_jobs(service: Service, worker: bytes) -> None:
    """Release the worker's jobs without spending an attempt, and deregister it."""
    try:
        await service.forget(worker)
    except UnknownWorker:
        log.debug("The worker was not registered, or is deregistered already.")


async def _list_held(service: Service, worker: bytes) -> list[Timeline]:
    found = await _find_worker(service, worker)
    if found is None or not found.running:
        return []
    timelines = await service.job([job.id for job in found.running])
    return [found for found in timelines if isinstance(found, Timeline) and _is_held(found.job, worker)]


async def _find_worker(service: Service, worker: bytes) -> Worker | None:
    start = 0
    while page := await service.workers(start=start, most=PAGE):
        for listed in page:
            if listed.id == worker:
                return listed
        start += len(page)
    return None


def _is_held(job: Job, worker: bytes) -> bool:
    return job.worker == worker and job.lease_token > 0


def _make_failure(timeline: Timeline, max_crashes: Mapping[str, int], message: str) -> Fail:
    job = timeline.job
    ended = make_crash(timeline.attempts, max_crashes.get(job.name, MAX_CRASHES), "WorkerDied", message)
    if is_first_crash(timeline.attempts):
        # Most likely another job or the kernel is at fault: it runs again at once, as after an expired lease.
        ended = AttemptFailed(msgspec.structs.replace(ended.failure, delay_ms=0))
    outcome = make_report(job, ended)
    assert isinstance(outcome, Fail)  # noqa: S101 (a crash is a failure)
    return outcome
