"""Owner of a download worker's leases: progress reports, and stop of downloads that were cancelled or have lost their
lease."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from windlass.background.lease_holder import HeldLease, LeaseHolder, describe_fixed_lease, lease_of
from windlass.background.reconciler import Reconciler
from windlass.core.errors import WindlassError
from windlass.core.job import Job
from windlass.core.operations import LeaseRef, Update, WorkerInfo
from windlass.service import Service

log = logging.getLogger("windlass.downloads")

PROGRESS_EVERY_S = 1.0
BATCH = 1000

StopReason: TypeAlias = Literal["", "cancelled", "lost", "stopping"]


class HeldDownload:
    """Job that this worker holds."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.lease = lease_of(job)
        self.task: asyncio.Task[None] | None = None
        self.stop_reason: StopReason = ""  # empty: not stopped
        self.stop_requested = threading.Event()  # the same, for threads
        self.has_begun = False  # a task that is cancelled before it starts would report nothing
        self.is_reporting = False  # the outcome is being reported: too late to stop
        self.received = 0  # bytes
        self.length: int | None = None
        self.reported = 0  # received bytes at the last progress report

    def stop(self, reason: StopReason) -> None:
        if self.stop_reason or self.is_reporting:
            return
        self.stop_reason = reason
        self.stop_requested.set()
        if self.has_begun and self.task is not None:
            self.task.cancel()

    def update(self) -> Update:
        self.reported = self.received
        share = min(1.0, self.received / self.length) if self.length else None
        of = f" of {self.length}" if self.length else ""
        return Update(id=self.job.id, token=self.job.lease_token, progress=share, note=f"{self.received}{of} bytes")


class HeldDownloads:
    """Downloads that this worker holds, as the owner of its leases. `file_leases` returns the leases of expired files
    that the worker deletes."""

    def __init__(
        self,
        service: Service,
        worker: bytes,
        info: WorkerInfo,
        lease_ms: int,
        file_leases: Callable[[], list[HeldLease]],
    ) -> None:
        self._service = service
        self._file_leases = file_leases
        self._held: dict[bytes, HeldDownload] = {}
        self._moved = asyncio.Event()
        self.reconciler = Reconciler(service, self._holds)
        self.holder = LeaseHolder(service, worker, info, self, log, lease_ms=lease_ms)

    def __len__(self) -> int:
        return len(self._held)

    def all(self) -> list[HeldDownload]:
        return list(self._held.values())

    def add(self, held: HeldDownload) -> None:
        self._held[held.job.id] = held
        self.holder.expect_lease(held.lease.lease_ms)
        if held.job.id in self.holder.early_cancels:
            held.stop("cancelled")

    def drop(self, held: HeldDownload) -> None:
        if self._held.get(held.job.id) is held:
            del self._held[held.job.id]

    def _holds(self, lease: LeaseRef) -> bool:
        return any(lease == held.ref for held in self.leases())

    # Called by the lease holder

    def leases(self) -> list[HeldLease]:
        return [*(held.lease for held in self._held.values() if held.stop_reason != "lost"), *self._file_leases()]

    def on_lost(self, lease: LeaseRef) -> None:
        held = self._held.get(lease.id)
        if held is not None and held.lease.ref == lease:
            held.stop("lost")

    def on_expired(self, lease: LeaseRef) -> None:
        held = self._held.get(lease.id)
        if held is not None and held.lease.ref == lease and not held.is_reporting:
            log.warning(
                "Download %s was not finished within its lease; another worker will retry it. %s",
                held.job.key,
                describe_fixed_lease(held.job.queue),
            )
            held.stop("lost")

    def on_cancel(self, job_id: bytes) -> bool:
        held = self._held.get(job_id)
        if held is not None:
            held.stop("cancelled")
        return held is not None

    def on_unclaimed(self, leases: Sequence[LeaseRef]) -> None:
        self.reconciler.begin(leases)

    def on_stop_request(self) -> None:
        """Do nothing: a download worker stops with its process."""

    # Progress

    def note_progress(self, held: HeldDownload, received: int, length: int | None) -> None:
        held.received, held.length = received, length
        self._moved.set()

    async def report_progress(self) -> None:
        """Report progress until cancelled, of all changed downloads together, at most once a second."""
        while True:
            await self._moved.wait()
            self._moved.clear()
            moved = [held for held in self.all() if held.received != held.reported and not held.is_reporting]
            try:
                for start in range(0, len(moved), BATCH):
                    await self._service.update([held.update() for held in moved[start : start + BATCH]])
            except WindlassError as error:
                log.debug("Could not report progress: %s", error)
            await asyncio.sleep(PROGRESS_EVERY_S)
