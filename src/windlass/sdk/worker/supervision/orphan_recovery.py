"""Frees the jobs of a worker process that has died, at once instead of when their leases run out."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from windlass.core.errors import Refusal, UnknownWorker
from windlass.core.job import Job, Timeline
from windlass.core.operations import Fail, Finish, Worker
from windlass.sdk.tasks.task import MAX_CRASHES
from windlass.sdk.worker.outcome import make_report
from windlass.service import Service

from .crashes import make_crash

log = logging.getLogger("windlass.supervisor")
PAGE = 100


async def recover_orphans(service: Service, worker: bytes, max_crashes: Mapping[str, int], message: str) -> int:
    """The crash is the end of an attempt of each job that it held: which of them brought the process down is not
    known, and the one that did must not do so for ever. Answers how many jobs that were."""
    recovered = 0
    while held := await _held_by(service, worker):
        answers = await service.fail([_crash(one, max_crashes, message) for one in held])
        freed = sum(not isinstance(answer, Refusal) for answer in answers)
        recovered += freed
        if not freed:
            break
    await release_jobs(service, worker)
    return recovered


async def release_jobs(service: Service, worker: bytes) -> None:
    """What it holds waits again, without a spent attempt; it is not listed any more."""
    try:
        await service.forget(worker)
    except UnknownWorker:
        log.debug("The worker had not registered, or was forgotten already.")


async def _held_by(service: Service, worker: bytes) -> list[Timeline]:
    found = await _listed(service, worker)
    if found is None or not found.running:
        return []
    timelines = await service.job([one.id for one in found.running])
    return [one for one in timelines if isinstance(one, Timeline) and _is_held(one.job, worker)]


async def _listed(service: Service, worker: bytes) -> Worker | None:
    start = 0
    while page := await service.workers(start=start, most=PAGE):
        for one in page:
            if one.id == worker:
                return one
        start += len(page)
    return None


def _is_held(job: Job, worker: bytes) -> bool:
    return job.worker == worker and job.lease_token > 0


def _crash(timeline: Timeline, max_crashes: Mapping[str, int], message: str) -> Fail:
    job = timeline.job
    ended = make_crash(timeline.attempts, max_crashes.get(job.name, MAX_CRASHES), "WorkerDied", message)
    outcome = make_report(job, ended)
    assert not isinstance(outcome, Finish)  # noqa: S101 (a crash is a failure)
    return outcome
