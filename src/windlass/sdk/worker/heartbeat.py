"""Heartbeat thread of a worker, with its own event loop and store.

It runs the worker's lease holder and the monitor of its event loop, sends the progress of jobs and the figures of
tasks,
and runs the background loops. Code that blocks the worker's event loop does not block it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from windlass.background import runner
from windlass.background.lease_holder import BEATS_PER_LEASE, BUSY_BEAT_MS, LeaseHolder, LeaseOwner
from windlass.core.operations import WorkerInfo
from windlass.processes.event_loop import new_event_loop
from windlass.sdk.deployment import AnyStore, make_service, make_worker_connection

from .event_loop_monitor import EventLoopMonitor
from .progress import ProgressSender
from .task_figures import TaskRecorder, TaskReporter

log = logging.getLogger("windlass.worker")

T = TypeVar("T")


class HeartbeatThread:
    """Thread that keeps the worker's registration and leases alive. `owner` has thread-safe methods."""

    def __init__(
        self,
        store: AnyStore,
        worker: bytes,
        info: WorkerInfo,
        owner: LeaseOwner,
        monitor: EventLoopMonitor,
        *,
        has_loops: bool,
        beat_every_s: float,
    ) -> None:
        self._store = store
        self._worker = worker
        self._info = info
        self._owner = owner
        self._monitor = monitor
        self._has_loops = has_loops
        self._beat_every_s = beat_every_s
        self._ready: asyncio.Future[None]
        self._thread = threading.Thread(target=self._work, name="windlass-heartbeat", daemon=True)
        self._worker_loop = asyncio.get_running_loop()
        self.holder: LeaseHolder
        self.progress: ProgressSender
        self.recorder = TaskRecorder()
        self._reporter: TaskReporter

    # Called by the worker, on its event loop

    async def start(self) -> None:
        """Start the thread. Returns when the worker is registered."""
        self._ready = self._worker_loop.create_future()
        self._thread.start()
        await self._ready

    async def close(self) -> None:
        """Deregister the worker, which releases its remaining jobs, and stop the thread. Last step of a worker."""
        if self._thread.is_alive():
            await self.call(self._deregister())
            await asyncio.to_thread(self._thread.join)

    async def call(self, work: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def flush(self) -> None:
        """Send all pending progress, values and log lines."""
        await self.call(self.progress.flush())

    def expect_lease(self, lease_ms: int) -> None:
        """Beat often enough for a job with so short a lease."""
        if 0 < lease_ms < self.holder.beat_every_s * 1000 * BEATS_PER_LEASE:
            self._loop.call_soon_threadsafe(self.holder.expect_lease, lease_ms)

    def expect_busy(self) -> None:
        """Beat soon if the worker was idle: it now holds a job."""
        if self.holder.is_idle:
            self._loop.call_soon_threadsafe(self.holder.expect_busy)

    # Run in the heartbeat thread

    def _work(self) -> None:
        try:
            with asyncio.Runner(loop_factory=new_event_loop) as loop_runner:
                loop_runner.run(self._main())
        except BaseException as error:
            log.exception("The heartbeat thread has ended. The worker's leases will expire; restart the worker.")
            self._resolve_ready(error)

    def _resolve_ready(self, error: BaseException | None = None) -> None:
        def resolve() -> None:
            if not self._ready.done():
                self._ready.set_exception(error) if error else self._ready.set_result(None)

        self._worker_loop.call_soon_threadsafe(resolve)

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._closing = asyncio.Event()
        async with self._store.clone() as store:
            service = make_service(store)
            self.progress = ProgressSender(service)
            self._reporter = TaskReporter(service, self._worker, self.recorder)
            self.holder = LeaseHolder(
                service,
                self._worker,
                self._info,
                self._owner,
                log,
                beat_every_s=self._beat_every_s,
                busy_beat_ms=BUSY_BEAT_MS,
            )
            connection = make_worker_connection(store, self._worker)
            if connection is not None:
                self.holder.on_registered = connection.reopen
            await self.holder.register()
            self._monitor.attach()
            self._resolve_ready()
            works = [self._beat(), self.progress.run(), self._reporter.run()]
            works += [runner.run(service)] if self._has_loops else []
            works += [connection.run()] if connection is not None else []
            tasks = [asyncio.create_task(work) for work in works]
            for task in tasks:
                task.add_done_callback(_log_early_end)
            await self._closing.wait()
            self._monitor.close()
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _deregister(self) -> None:
        try:
            await self.progress.flush()
            await self._reporter.close()
            await self.holder.deregister()
        finally:
            self._closing.set()

    async def _beat(self) -> None:
        while True:
            await self.holder.turn()
            self._monitor.check()


def _log_early_end(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("A part of the heartbeat thread has ended unexpectedly. Restart the worker.", exc_info=error)
