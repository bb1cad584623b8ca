"""Leases of a download worker: registration, heartbeats, progress reports, and stop of downloads that were cancelled or
have lost their lease."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Literal, TypeAlias

from windlass.background.reconciler import Reconciler
from windlass.core.errors import Refusal, UnknownWorker, WindlassError
from windlass.core.job import Job
from windlass.core.operations import Extended, LeaseRef, Update, WorkerInfo
from windlass.service import Service

log = logging.getLogger("windlass.downloads")

BEAT_MS = 30_000  # a worker that is silent for this time counts as lost
BEAT_EVERY_S = 10.0
PROGRESS_EVERY_S = 1.0
TROUBLE_PAUSE_S = 1.0
BATCH = 1000

StopReason: TypeAlias = Literal["", "cancelled", "lost", "stopping"]


class HeldDownload:
    """Job that this worker holds."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.lease = LeaseRef(job.id, job.lease_token)
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
    """Jobs that this worker holds. `others` returns leases of the same worker that another object holds."""

    def __init__(
        self, service: Service, worker: bytes, info: WorkerInfo, lease_ms: int, others: Callable[[], list[LeaseRef]]
    ) -> None:
        self._service = service
        self._worker = worker
        self._info = info
        self._lease_ms = lease_ms
        self._others = others
        self._held: dict[bytes, HeldDownload] = {}
        self.reconciler = Reconciler(service, lambda lease: lease in self._leases())
        self._moved = asyncio.Event()

    def __len__(self) -> int:
        return len(self._held)

    def all(self) -> list[HeldDownload]:
        return list(self._held.values())

    def _leases(self) -> list[LeaseRef]:
        """Return all leases of this worker."""
        return [*(held.lease for held in self._held.values()), *self._others()]

    def add(self, held: HeldDownload) -> None:
        self._held[held.job.id] = held

    def drop(self, held: HeldDownload) -> None:
        if self._held.get(held.job.id) is held:
            del self._held[held.job.id]

    def note_progress(self, held: HeldDownload, received: int, length: int | None) -> None:
        held.received, held.length = received, length
        self._moved.set()

    async def register(self) -> None:
        self._service.hear_cancels(self._cancel)
        while True:
            try:
                await self._service.register(self._worker, self._info, beat_ms=BEAT_MS)
                return
            except Refusal:
                raise
            except WindlassError as error:
                log.warning("Could not register the download worker; retrying in %g s: %s", TROUBLE_PAUSE_S, error)
                await asyncio.sleep(TROUBLE_PAUSE_S)

    def _cancel(self, job_id: bytes) -> None:
        if (held := self._held.get(job_id)) is not None:
            held.stop("cancelled")

    async def run_heartbeat(self) -> None:
        """Extend leases and send heartbeats until cancelled."""
        pause_s = min(BEAT_EVERY_S, self._lease_ms / 3000)
        while True:
            await asyncio.sleep(pause_s)
            try:
                await self._extend()
                held = [lease.id for lease in self._leases()]
                self.reconciler.begin((await self._service.beat_holding(self._worker, held)).unclaimed)
            except UnknownWorker:
                await self.register()
            except WindlassError as error:
                log.warning("Could not send the heartbeat of the download worker; retrying in %g s: %s", pause_s, error)

    async def _extend(self) -> None:
        holds = self.all()
        for start in range(0, len(holds), BATCH):
            part = holds[start : start + BATCH]
            answers = await self._service.extend([held.lease for held in part], lease_ms=self._lease_ms)
            for held, answer in zip(part, answers, strict=True):
                if isinstance(answer, Refusal):
                    held.stop("lost")
                elif isinstance(answer, Extended) and answer.is_cancel_requested:
                    held.stop("cancelled")

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
