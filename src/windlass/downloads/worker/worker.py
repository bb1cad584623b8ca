"""Download worker: takes downloads from their queue, runs them and reports the outcome.

The engine enforces the limit of each aggregation. A process that dies loses nothing, because its leases expire."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import msgspec

from windlass.background.outcomes import TRANSIENT, Outcome, report_outcomes
from windlass.core.errors import Refusal, WindlassError
from windlass.core.job import Blob, Job
from windlass.core.operations import CompleteWithChildren, Fail, Finish, Take, WorkerInfo
from windlass.outbound import Outbound
from windlass.retry_loop import RetryLoop
from windlass.service import Service

from .attempt import Downloader
from .counters import DownloadCounters
from .disk import EVERY_S, DiskMonitor, used_share
from .failures import DownloadFailure
from .file_expiry import Reaper
from .leases import HeldDownload, HeldDownloads
from .options import DownloadOptions
from .order import CRASHES_MAX, FILES_QUEUE, QUEUE, BadOrder, Order, download_id_of, read_order
from .report import MESSAGE_MAX, DownloadError, encode_report
from .temp_file import remove_orphans
from .threads import ThreadPool

log = logging.getLogger("windlass.downloads")

WAIT_MS = 60_000
THREADS = 16  # for disk operations
CLEAN_EVERY_S = 3600.0
DEREGISTER_TIMEOUT_S = 5.0  # at shutdown
SHORTEST_INTERNAL_PAUSE_MS = 1000

ProxyOf: TypeAlias = Callable[[Service, str], Awaitable[str]]
Prepare: TypeAlias = Callable[[Service], Awaitable[None]]


async def no_proxy(service: Service, aggregation: str) -> str:
    return ""


async def no_preparation(service: Service) -> None:
    pass


class DownloadWorker:
    """Worker for downloads. `run` runs until it is cancelled; then downloads in flight are given back, and no attempt
    is spent.

    `proxy_of` returns the proxy of an aggregation, or an empty text. `prepare` creates the limit of the aggregations;
    it is called when a job comes that counts against no limit. `used` returns the used share of a directory's disk,
    from 0 to 1."""

    def __init__(
        self,
        outbound: Outbound,
        options: DownloadOptions,
        *,
        proxy_of: ProxyOf = no_proxy,
        prepare: Prepare = no_preparation,
        used: Callable[[Path], float] = used_share,
        look_every_s: float = EVERY_S,
    ) -> None:
        self._options = options
        self._proxy_of = proxy_of
        self._prepare_limit = prepare
        self._is_limit_prepared = False
        self._counters = DownloadCounters()
        self._threads = ThreadPool(THREADS)
        self._downloader = Downloader(outbound, options, self._threads, self._counters)
        self._worker = os.urandom(16)
        self._disk = DiskMonitor(options.directory, self._disk_changed, used=used, every_s=look_every_s)
        storage = self._downloader.storage
        self._reaper = Reaper(
            storage, self._downloader.threads_for(storage), self._counters, self._worker, options.retry_delay_ms
        )
        self._taking: asyncio.Task[list[Job]] | None = None
        self._changed = asyncio.Event()  # a slot is free, or the disk has space
        self._service: Service
        self._held: HeldDownloads

    def counters(self) -> dict[str, int]:
        """Return the counters of this worker."""
        return self._counters.counters()

    # Lifecycle

    async def run(self, service: Service) -> None:
        self._service = service
        info = WorkerInfo(
            host=socket.gethostname(),
            pid=os.getpid(),
            queues=(QUEUE, FILES_QUEUE),
            slots=self._options.slots,
            name="downloads",
            component="downloads",
        )
        self._held = HeldDownloads(service, self._worker, info, self._options.lease_ms, self._reaper.leases)
        self._reaper.admit = self._held.reconciler.admit
        await self._prepare()
        try:
            async with asyncio.TaskGroup() as group:
                for part in (
                    self._held.holder.run(),
                    self._held.report_progress(),
                    self._disk.watch(),
                    self._reaper.run(service),
                    self._clean(),
                    self._take_all(),
                ):
                    group.create_task(part)
        finally:
            await self._deregister()

    async def _prepare(self) -> None:
        await self._threads.run(self._options.directory.mkdir, parents=True, exist_ok=True)
        await self._disk.check()
        await self._held.holder.register()

    async def _clean(self) -> None:
        """Remove temporary files of processes that died, at the start and once an hour."""
        while True:
            if removed := await self._threads.run(remove_orphans, self._options.directory):
                log.info("Removed %d unfinished files that no process continues.", removed)
            await asyncio.sleep(CLEAN_EVERY_S)

    async def _deregister(self) -> None:
        self._held.reconciler.close()
        for held in self._held.all():
            held.stop("stopping")
        if tasks := [held.task for held in self._held.all() if held.task is not None]:
            _, left = await asyncio.wait(tasks, timeout=DEREGISTER_TIMEOUT_S)
            for task in left:
                task.cancel()
        await self._held.holder.deregister(DEREGISTER_TIMEOUT_S)
        self._threads.close()
        self._downloader.close()

    # Taking

    async def _take_all(self) -> None:
        while True:
            self._changed.clear()
            free = self._options.slots - len(self._held)
            if self._disk.is_full:
                await self._threads.run(remove_orphans, self._options.directory, 0)
            if free <= 0 or self._disk.is_full:
                await self._changed.wait()
                continue
            for job in self._held.reconciler.admit(await self._take(free)):
                self._begin(job)

    async def _take(self, most: int) -> list[Job]:
        """Take jobs. If the disk becomes full during the take, return no jobs; leased jobs go back."""
        self._taking = asyncio.create_task(self._request_jobs(most))
        try:
            await asyncio.wait({self._taking})
            return [] if self._taking.cancelled() else self._taking.result()
        finally:
            self._taking.cancel()

    async def _request_jobs(self, most: int) -> list[Job]:
        request = Take(
            queues=(QUEUE,), most=most, worker=self._worker, lease_ms=self._options.lease_ms, wait_ms=WAIT_MS
        )
        taking = RetryLoop(log, "Could not take downloads", WindlassError)
        return (await taking.until_done(lambda: self._service.take(request))).jobs

    def _disk_changed(self) -> None:
        self._changed.set()
        if self._disk.is_full and self._taking is not None:
            self._taking.cancel()

    # One download

    def _begin(self, job: Job) -> None:
        held = HeldDownload(job)
        self._held.add(held)
        held.task = asyncio.create_task(self._work(held), name=f"windlass-download-{job.key}")

    async def _work(self, held: HeldDownload) -> None:
        held.has_begun = True
        try:
            outcome = _stopped_report(held) if held.stop_reason else await self._run_download(held)
            held.is_reporting = True
            if outcome is not None:
                await self._report_outcome(held.job, outcome)
        except Exception:
            log.exception(
                "Unexpected error in download %s; another worker retries it after its lease expires.", held.job.key
            )
        finally:
            self._held.drop(held)
            self._changed.set()

    async def _run_download(self, held: HeldDownload) -> Outcome | None:
        job = held.job
        try:
            order = read_order(job.payload)
        except BadOrder as error:
            return _failed_report(job, DownloadFailure("reading the job", str(error)))
        if job.attempt > 1 + order.max_retries + CRASHES_MAX:
            return _failed_report(job, DownloadFailure("downloading", "it was begun several times and never ended"))
        self._counters.record_start(order.aggr_id)
        try:
            return await self._run_attempt(held, order)
        except asyncio.CancelledError:
            if not held.stop_reason:
                raise
            if held.task is not None:
                held.task.uncancel()
            return _stopped_report(held)
        finally:
            self._counters.record_end(order.aggr_id)

    async def _run_attempt(self, held: HeldDownload, order: Order) -> Outcome:
        job = held.job
        try:
            order = await self._identify(job, order)
            proxy = await self._find_proxy(order.aggr_id)
            report = await self._downloader.attempt(
                order,
                proxy,
                lambda received, length: self._held.note_progress(held, received, length),
                held.stop_requested,
                is_last=self._disk.is_full or not _has_attempts_left(job, order),
            )
            return Finish(job.id, job.lease_token, Blob(encode_report(report)))
        except DownloadFailure as failure:
            return self._outcome_of_failure(job, order, failure)
        except Exception as error:
            log.exception("Download %s failed with an unexpected error.", job.key)
            self._counters.add("failures")
            return self._retry_or_fail(
                job, order, DownloadFailure("downloading", repr(error), is_retriable=True, is_internal=True)
            )

    async def _identify(self, job: Job, order: Order) -> Order:
        """Return the order with its id. A job from elsewhere gets one, and the limit that it should count against."""
        try:
            if not job.limits and not self._is_limit_prepared:
                await self._prepare_limit(self._service)
                self._is_limit_prepared = True
            found = order.id or await download_id_of(self._service, job, order)
        except WindlassError as error:
            raise DownloadFailure("looking for its id", str(error), is_retriable=True, is_internal=True) from error
        # Without an id, the job was deleted in the meantime: its report will be refused.
        return msgspec.structs.replace(order, id=found or job.key)

    async def _find_proxy(self, aggregation: str) -> str:
        try:
            return await self._proxy_of(self._service, aggregation) if aggregation else ""
        except WindlassError as error:
            raise DownloadFailure("looking for its proxy", str(error), is_retriable=True, is_internal=True) from error

    def _outcome_of_failure(self, job: Job, order: Order, failure: DownloadFailure) -> Outcome:
        if failure.counted_as:
            self._counters.add(f"download.response{failure.counted_as}")
        if failure.is_internal:
            log.warning("Download %s will be retried: %s", job.key, failure)
            self._counters.add("failures")
            delay_ms = max(self._options.retry_delay_ms, SHORTEST_INTERNAL_PAUSE_MS)
            return CompleteWithChildren(
                id=job.id, token=job.lease_token, then="again", delay_ms=delay_ms, attempt=max(0, job.attempt - 1)
            )
        return self._retry_or_fail(job, order, failure)

    def _retry_or_fail(self, job: Job, order: Order, failure: DownloadFailure) -> Fail:
        if not failure.is_retriable or not _has_attempts_left(job, order):
            return _failed_report(job, failure, order.id)
        usual_ms = job.attempt * self._options.retry_delay_ms
        delay_ms = usual_ms if failure.retry_after_ms is None else failure.retry_after_ms
        return _failed_report(job, failure, order.id, retry_in_ms=delay_ms)

    async def _report_outcome(self, job: Job, outcome: Outcome) -> None:
        retries = RetryLoop(log, f"Could not report the outcome of download {job.key}", TRANSIENT)
        (answer,) = await report_outcomes(self._service, [outcome], retries)
        if isinstance(answer, Refusal):
            log.info("The state of download %s changed before its report: %s", job.key, answer)


def _has_attempts_left(job: Job, order: Order) -> bool:
    """Tell whether another attempt may follow this one. A job from elsewhere may have its own number of attempts."""
    return job.attempt <= order.max_retries and job.retry.wants_retry(job.attempt)


def _failed_report(job: Job, failure: DownloadFailure, download_id: str = "", retry_in_ms: int | None = None) -> Fail:
    error = DownloadError(str(failure)[:MESSAGE_MAX], failure.response_code, download_id)
    return Fail(
        id=job.id,
        token=job.lease_token,
        then="final" if retry_in_ms is None else "retry",
        delay_ms=retry_in_ms or 0,
        error=Blob(msgspec.json.encode(error)),
    )


def _stopped_report(held: HeldDownload) -> Outcome | None:
    if held.stop_reason == "cancelled":
        return Fail(id=held.job.id, token=held.job.lease_token, then="cancelled", reason="cancelled")
    return None  # the lease is lost, or the worker stops: then its jobs go back when it deregisters
