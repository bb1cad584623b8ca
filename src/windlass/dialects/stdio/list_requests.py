"""Answers to list requests: queued jobs, workers, progress. The form is ours: no known client reads it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from windlass.core.ids import format_id
from windlass.core.job import Job, Timeline
from windlass.core.job_aliases import processor_uuid
from windlass.core.operations import Listing, Worker
from windlass.core.states import State
from windlass.core.validation.bounds import PAGE_MAX
from windlass.service import Service

from . import instants, jobs
from .messages import ListMessage, ProcessorOptions

ROWS_MAX = 1000
WORKERS_SCANNED_MAX = 10_000
WHOLE_JOBS_MAX = 20  # read at once, with payloads of up to a megabyte


async def answer_list_request(service: Service, request: ListMessage, options: ProcessorOptions) -> bytes:
    """Return the payload of the answer."""
    rows: list[dict[str, Any]] = []
    key = "workers" if request.kind == "workers" else "jobs"
    candidates = (
        _worker_rows(service, request.queue) if request.kind == "workers" else _job_rows(service, request, options)
    )
    is_complete = True
    async for at_ms, row in candidates:
        if not request.later_than_ms <= at_ms <= request.earlier_than_ms:
            continue
        if len(rows) == ROWS_MAX:
            is_complete = False
            break
        rows.append(row)
    return msgspec.json.encode({"queue_name": request.queue, key: rows, "is_complete": is_complete})


async def _all_workers(service: Service) -> AsyncIterator[Worker]:
    start = 0
    while start < WORKERS_SCANNED_MAX and (page := await service.workers(start=start, most=PAGE_MAX)):
        for worker in page:
            yield worker
        start += len(page)


async def _worker_rows(service: Service, queue: str) -> AsyncIterator[tuple[int, dict[str, Any]]]:
    async for worker in _all_workers(service):
        if queue in worker.info.queues:
            yield (
                worker.beat_at_ms,
                {
                    "worker_uuid": worker.info.name or format_id(worker.id),
                    "state": "busy" if worker.running_count else "idle",
                    "last_seen": instants.format_instant(worker.beat_at_ms),
                },
            )


async def _job_rows(
    service: Service, request: ListMessage, options: ProcessorOptions
) -> AsyncIterator[tuple[int, dict[str, Any]]]:
    names = {} if request.kind == "queued" else {worker.id: worker.info.name async for worker in _all_workers(service)}
    wanted = {"queued": State.QUEUED, "dispatched": State.DISPATCHED, "progress": State.RUNNING}[request.kind]
    cursor = ""
    while True:
        state = "queued" if wanted is State.QUEUED else "running"
        page = await service.jobs(Listing(queue=request.queue, state=state, most=PAGE_MAX, cursor=cursor))
        found = [job for job in page.jobs if job.state is wanted]
        uuids = await _uuids(service, found)
        for job in found:
            yield _job_row(job, uuids[job.id], names, options)
        cursor = page.cursor
        if not cursor:
            return


async def _uuids(service: Service, found: list[Job]) -> dict[bytes, str]:
    """Return the uuids of jobs by id. Pages have only the beginning of a long payload: if the uuid is not in it, the
    whole job is read."""
    uuids = {job.id: jobs.job_uuid(job) for job in found}
    unknown = [job.id for job in found if processor_uuid(job) is None]
    for first in range(0, len(unknown), WHOLE_JOBS_MAX):
        for whole in await service.job(unknown[first : first + WHOLE_JOBS_MAX]):
            if isinstance(whole, Timeline):
                uuids[whole.job.id] = jobs.job_uuid(whole.job)
    return uuids


def _job_row(job: Job, uuid: str, names: dict[bytes, str], options: ProcessorOptions) -> tuple[int, dict[str, Any]]:
    row: dict[str, Any] = {
        "uuid": uuid,
        "command": job.name,
        "priority": jobs.clamp_priority(job),
        "created_at": instants.format_instant(job.created_at_ms),
    }
    if job.state is State.QUEUED:
        return job.created_at_ms, row
    worker = job.worker or b""
    row["worker_uuid"] = names.get(worker) or format_id(worker)
    started_at_ms = job.started_at_ms or 0
    if job.state is State.DISPATCHED:
        return started_at_ms, row | {"dispatched_at": instants.format_instant(started_at_ms)}
    seen_at_ms = max(started_at_ms, (job.lease_deadline_at_ms or 0) - options.expiry_ms)
    times = {
        "started_at": instants.format_instant(started_at_ms),
        "last_progress_at": instants.format_instant(seen_at_ms),
    }
    return seen_at_ms, row | times | {"progress": job.progress}
