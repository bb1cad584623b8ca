"""Files whose callbacks are delivered leave after a while: a job of the queue `downloads-files` for each."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import msgspec

from windlass.core.callbacks.callback import PendingCallback
from windlass.core.errors import Refusal, WindlassError
from windlass.core.job import Blob, Codec, Job, NewJob
from windlass.core.operations import Fail, Finish, LeaseRef, Take
from windlass.core.states import State
from windlass.service import Service

from .counters import DownloadCounters
from .failures import DownloadFailure
from .order import FILES_QUEUE, BadOrder, is_id, read_order
from .storage import Storage
from .threads import ThreadPool

log = logging.getLogger("windlass.downloads")

AT_ONCE = 20
WAIT_MS = 60_000
TROUBLE_PAUSE_S = 1.0
LONGEST_PAUSE_MS = 600_000


class _File(msgspec.Struct, frozen=True):
    id: str


async def on_delivered(service: Service, pending: PendingCallback, keep_ms: int) -> None:
    """The callback of a download has arrived: its job goes now, its file later. May be done twice."""
    name = _stored_file_id(pending)
    if name:
        payload = Blob(msgspec.json.encode(_File(name)))
        job = NewJob(queue=FILES_QUEUE, name="delete", payload=payload, unique=name, delay_ms=keep_ms)
        await service.enqueue([job]).one()
    await service.delete([pending.job.id])


def _stored_file_id(pending: PendingCallback) -> str:
    """Empty: there is no file of ours. Of a payload that was cut the id is left."""
    if pending.job.state != State.FINISHED:
        return ""
    try:
        order = read_order(pending.job)
    except BadOrder:
        return pending.job.unique or ""
    return "" if order.s3_bucket else order.id


class Reaper:
    """`await reaper.run(service)` until cancelled. `admit` is given the jobs of a take, and answers those that may
    begin."""

    def __init__(
        self, storage: Storage, threads: ThreadPool, counters: DownloadCounters, worker: bytes, retry_delay_ms: int
    ) -> None:
        self._storage = storage
        self._threads = threads
        self._counters = counters
        self._worker = worker
        self._retry_delay_ms = retry_delay_ms
        self._held: list[LeaseRef] = []  # of the round under way
        self.admit: Callable[[list[Job]], list[Job]] = list

    def leases(self) -> list[LeaseRef]:
        return self._held

    async def run(self, service: Service) -> None:
        while True:
            try:
                await self.reap(service, WAIT_MS)
            except WindlassError as error:
                log.warning("Files cannot be deleted (%s); still trying.", error)
                await asyncio.sleep(TROUBLE_PAUSE_S)

    async def reap(self, service: Service, wait_ms: int = 0) -> None:
        """One round."""
        request = Take(queues=(FILES_QUEUE,), most=AT_ONCE, worker=self._worker, wait_ms=wait_ms)
        jobs = self.admit((await service.take(request)).jobs)
        self._held = [LeaseRef(job.id, job.lease_token) for job in jobs]
        try:
            async with asyncio.TaskGroup() as group:
                for job in jobs:
                    group.create_task(self._delete(service, job))
        finally:
            self._held = []

    async def _delete(self, service: Service, job: Job) -> None:
        failure = await self._remove(job)
        self._counters.add("reaperFailures" if failure else "reaperSuccessfulDeletions")
        try:
            if not failure:
                await service.finish([Finish(job.id, job.lease_token)]).one()
                return
            log.warning("A file could not be deleted; later again: %s", failure)
            delay_ms = min(job.attempt * self._retry_delay_ms, LONGEST_PAUSE_MS)
            error = Blob(msgspec.json.encode({"message": failure}))
            retry = Fail(id=job.id, token=job.lease_token, then="retry", delay_ms=delay_ms, error=error)
            await service.fail([retry]).one()
        except Refusal as refusal:
            log.debug("The deletion of a file has gone its way meanwhile: %s", refusal)

    async def _remove(self, job: Job) -> str:
        """What went wrong; empty: nothing. What is not the id of a download has no file."""
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
