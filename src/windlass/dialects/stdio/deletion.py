"""Deletion of a job on request: `del_job`."""

from __future__ import annotations

from typing import NamedTuple

from windlass.core.errors import Refusal, UnknownJob
from windlass.core.job import Job, Timeline
from windlass.service import Service

from . import jobs
from .messages import DeleteJobMessage


class Deletion(NamedTuple):
    """Outcome of a deletion. `worker` is the holder that must be asked to stop, if it receives messages."""

    status: str  # cancelled, or requested
    worker: str = ""


async def delete_job(service: Service, message: DeleteJobMessage) -> Deletion:
    """Cancel a job. A job that waits ends at once; a dispatched or running one ends when its worker has stopped."""
    job = await _find(service, message)
    status = await service.cancel([job.id]).one()
    if status != "requested":
        return Deletion(status)
    (found,) = await service.job([job.id])
    worker = found.job.worker if isinstance(found, Timeline) else None
    return Deletion(status, await _worker_name(service, worker) if worker else "")


async def _find(service: Service, message: DeleteJobMessage) -> Job:
    holder = await service.holder(message.queue, message.uuid)
    ids = [job_id for job_id in (holder, jobs.engine_id(message.uuid)) if job_id]
    found = await service.job(ids) if ids else []
    for timeline in found:
        if isinstance(timeline, Timeline) and _is_named(timeline.job, message):
            return timeline.job
    refusals = [timeline for timeline in found if isinstance(timeline, Refusal)]
    raise refusals[-1] if refusals else UnknownJob


def _is_named(job: Job, message: DeleteJobMessage) -> bool:
    """Whether the message means the job. The unique key of a job from another dialect is no uuid."""
    return job.queue == message.queue and message.uuid in (jobs.job_uuid(job), job.key)


async def _worker_name(service: Service, worker: bytes) -> str:
    """Return the name of a worker that receives messages; other workers learn of the request by their heartbeats."""
    name = (await service.worker(worker)).info.name
    return name if name and jobs.worker_id(name) == worker else ""
