"""Expiry of files whose callbacks were delivered: one job of the queue `downloads-files` deletes each file."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import msgspec

from windlass.background.lease_holder import HeldLease, lease_of
from windlass.background.outcomes import TRANSIENT, report_outcomes
from windlass.core.callbacks.callback import PendingCallback
from windlass.core.errors import Refusal, WindlassError
from windlass.core.job import Blob, Codec, Job, NewJob
from windlass.core.operations import Fail, Finish, Take
from windlass.core.states import State
from windlass.retry_loop import RetryLoop
from windlass.service import Service

from .counters import DownloadCounters
from .failures import DownloadFailure
from .order import FILES_QUEUE, is_id
from .report import EndedDownload, ended_download, valid_report
from .storage import Storage
from .threads import ThreadPool

log = logging.getLogger("windlass.downloads")

AT_ONCE = 20
WAIT_MS = 60_000
RETRY_CAP_MS = 600_000  # longest delay of a deletion that failed


class _File(msgspec.Struct, frozen=True):
    id: str


async def on_delivered(service: Service, pending: PendingCallback, keep_ms: int) -> None:
    """Delete the job of a download after its callback was received, and schedule the deletion of its file. This may run
    twice."""
    name = _stored_file_id(await ended_download(service, pending))
    if name:
        payload = Blob(msgspec.json.encode(_File(name)))
        job = NewJob(queue=FILES_QUEUE, name="delete", payload=payload, unique=name, delay_ms=keep_ms)
        await service.enqueue([job]).one()
    await service.delete([pending.job.id])


def _stored_file_id(ended: EndedDownload) -> str:
    """Return the id of the file; empty if this deployment stores none."""
    report = valid_report(ended) if ended.job.state == State.FINISHED else None
    return "" if report is None or (ended.order is not None and ended.order.s3_bucket) else report.job_id


class Reaper:
    """Deleter of expired files. `run` runs until it is cancelled. `admit` gets the jobs of a take and returns the jobs
    that may start."""

    def __init__(
        self, storage: Storage, threads: ThreadPool, counters: DownloadCounters, worker: bytes, retry_delay_ms: int
    ) -> None:
        self._storage = storage
        self._threads = threads
        self._counters = counters
        self._worker = worker
        self._retry_delay_ms = retry_delay_ms
        self._held: list[HeldLease] = []  # of the current round
        self.admit: Callable[[list[Job]], list[Job]] = list

    def leases(self) -> list[HeldLease]:
        return self._held

    async def run(self, service: Service) -> None:
        await RetryLoop(log, "Could not take expired files", WindlassError).forever(lambda: self.reap(service, WAIT_MS))

    async def reap(self, service: Service, wait_ms: int = 0) -> None:
        """Delete the files of one take."""
        request = Take(queues=(FILES_QUEUE,), most=AT_ONCE, worker=self._worker, wait_ms=wait_ms)
        jobs = self.admit((await service.take(request)).jobs)
        self._held = [lease_of(job) for job in jobs]
        try:
            async with asyncio.TaskGroup() as group:
                for job in jobs:
                    group.create_task(self._delete(service, job))
        finally:
            self._held = []

    async def _delete(self, service: Service, job: Job) -> None:
        failure = await self._remove(job)
        self._counters.add("reaperFailures" if failure else "reaperSuccessfulDeletions")
        outcome = self._retry(job, failure) if failure else Finish(job.id, job.lease_token)
        retries = RetryLoop(log, "Could not report the deletion of a file", TRANSIENT)
        (answer,) = await report_outcomes(service, [outcome], retries)
        if isinstance(answer, Refusal):
            log.debug("The state of job %s changed during its run: %s", job.key, answer)

    def _retry(self, job: Job, failure: str) -> Fail:
        delay_ms = min(job.attempt * self._retry_delay_ms, RETRY_CAP_MS)
        log.warning("Could not delete a file; retrying in %g s: %s", delay_ms / 1000, failure)
        error = Blob(msgspec.json.encode({"message": failure}))
        return Fail(id=job.id, token=job.lease_token, then="retry", delay_ms=delay_ms, error=error)

    async def _remove(self, job: Job) -> str:
        """Delete the file. Return the error, or an empty text. A payload without a download id has no file."""
        try:
            file = msgspec.json.decode(job.payload.data, type=_File) if job.payload.codec == Codec.JSON else None
        except msgspec.DecodeError:
            file = None
        if file is None or not is_id(file.id):
            return ""
        try:
            await self._threads.run(self._storage.remove, file.id)
        except (OSError, DownloadFailure) as error:
            return str(error)
        return ""
