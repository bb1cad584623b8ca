"""Heartbeat thread of a worker, with its own event loop and store.

It sends heartbeats and the progress of jobs, extends leases, receives requests to stop, and runs the background loops.
Code that blocks the worker's event loop does not block it.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import uvloop

from windlass.background import runner
from windlass.core.errors import Refusal, UnknownWorker, WindlassError
from windlass.core.operations import Extended, LeaseRef, WorkerInfo
from windlass.sdk.deployment import AnyStore, make_service

from .progress import ProgressSender

if TYPE_CHECKING:
    from .run import Run

log = logging.getLogger("windlass.worker")

T = TypeVar("T")
BEAT_MS = 30_000  # a worker without a heartbeat for this time counts as lost
BEAT_EVERY_S = 10.0
RETRY_PAUSE_S = 1.0
SHORTEST_BEAT_S = 0.05


class HeartbeatThread:
    """Thread that keeps the worker's registration and leases alive.

    `runs` returns the running jobs, and `held` the ids of all jobs that the worker has received and not reported. The
    thread calls `lost` (a run has lost its lease), `stop` (a job must stop), `unclaimed` (leases of this worker that
    `held` did not name) and `stop_worker` (the worker must end).
    """

    def __init__(
        self,
        store: AnyStore,
        worker: bytes,
        info: WorkerInfo,
        *,
        runs: Callable[[], list[Run]],
        held: Callable[[], list[bytes]],
        unclaimed: Callable[[list[LeaseRef]], None],
        lost: Callable[[Run], None],
        stop: Callable[[bytes], None],
        stop_worker: Callable[[], None],
        has_loops: bool = True,
        beat_every_s: float = BEAT_EVERY_S,
    ) -> None:
        self._store = store
        self._worker = worker
        self._info = info
        self._runs = runs
        self._held = held
        self._unclaimed = unclaimed
        self._lost = lost
        self._stop = stop
        self._stop_worker = stop_worker
        self._has_loops = has_loops
        self._default_interval_s = beat_every_s
        self._beat_every_s = beat_every_s
        self._ready: asyncio.Future[None]
        self._thread = threading.Thread(target=self._work, name="windlass-heartbeat", daemon=True)
        self._worker_loop = asyncio.get_running_loop()
        self._worker_thread = threading.get_ident()
        self.progress: ProgressSender

    # Called by the worker, on its event loop

    async def start(self) -> None:
        """Start the thread. Returns when the worker is registered."""
        self._ready = self._worker_loop.create_future()
        self._thread.start()
        await self._ready

    async def close(self, *, forget: bool) -> None:
        """Stop the thread, as the last step of a worker. Leases that are left are released."""
        if self._thread.is_alive():
            await self.call(self._deregister(forget))
            await asyncio.to_thread(self._thread.join)

    async def call(self, work: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def flush(self) -> None:
        """Send all pending progress, values and log lines."""
        await self.call(self.progress.flush())

    def beat_for_lease(self, lease_ms: int) -> None:
        """Beat often enough for a job with so short a lease."""
        every_s = max(SHORTEST_BEAT_S, lease_ms / 3000)
        if every_s < self._beat_every_s:
            self._beat_every_s = every_s
            self._loop.call_soon_threadsafe(self._interval_changed.set)

    # Run in the heartbeat thread

    def _work(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop_runner:
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
        self._interval_changed, self._closing = asyncio.Event(), asyncio.Event()
        async with self._store.clone() as store:
            self._service = make_service(store)
            self.progress = ProgressSender(self._service)
            self._service.hear_cancels(self._stop)
            await self._register()
            self._resolve_ready()
            works = [self._beat(), self.progress.run(), *([runner.run(self._service)] if self._has_loops else [])]
            tasks = [asyncio.create_task(work) for work in works]
            for task in tasks:
                task.add_done_callback(_log_early_end)
            await self._closing.wait()
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _deregister(self, forget: bool) -> None:
        try:
            await self.progress.flush()
            if forget:
                await self._service.forget(self._worker)
        except WindlassError as error:
            log.warning("Could not deregister worker: %s. Its leases will expire.", error)
        finally:
            self._closing.set()

    async def _register(self) -> None:
        while True:
            try:
                await self._service.register(self._worker, self._info, beat_ms=BEAT_MS)
                return
            except Refusal:
                raise
            except WindlassError as error:
                log.warning("Could not register the worker: %s. Trying again in %g s.", error, RETRY_PAUSE_S)
                await asyncio.sleep(RETRY_PAUSE_S)

    async def _beat(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._beat_every_s):
                    await self._interval_changed.wait()
                    self._interval_changed.clear()
                    continue
            except TimeoutError:
                pass
            try:
                await self._extend()
                await self._send_heartbeat()
            except WindlassError as error:
                log.warning("Could not send a heartbeat: %s. Trying again in %g s.", error, RETRY_PAUSE_S)
                await asyncio.sleep(RETRY_PAUSE_S)
            self._check_event_loop()

    async def _extend(self) -> None:
        runs = self._runs()
        for start in range(0, len(runs), 1000):
            part = runs[start : start + 1000]
            answers = await self._service.extend([LeaseRef(run.job.id, run.job.lease_token) for run in part])
            for run, answer in zip(part, answers, strict=True):
                if isinstance(answer, Refusal):
                    self._lost(run)
                elif isinstance(answer, Extended) and answer.is_cancel_requested:
                    self._stop(run.job.id)
        self._beat_every_s = min([self._default_interval_s, *(run.beat_every_s for run in self._runs())])

    async def _send_heartbeat(self) -> None:
        try:
            report = await self._service.beat_holding(self._worker, self._held())
        except UnknownWorker:
            await self._register()
            return
        if report.is_asked_to_stop:
            self._stop_worker()
        if report.unclaimed:
            self._unclaimed(report.unclaimed)

    def _check_event_loop(self) -> None:
        """Log the worker's stack if its event loop does not answer."""
        answered = threading.Event()
        self._worker_loop.call_soon_threadsafe(answered.set)
        self._loop.call_later(self._beat_every_s, self._warn_if_blocked, answered)

    def _warn_if_blocked(self, answered: threading.Event) -> None:
        frame = sys._current_frames().get(self._worker_thread)
        if not answered.is_set() and frame is not None:
            stack = "".join(traceback.format_stack(frame))
            log.warning(
                "The worker's event loop is blocked. Use a sync function, or `await`. It is here:\n%s",
                stack,
            )


def _log_early_end(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("A part of the heartbeat thread has ended unexpectedly. Restart the worker.", exc_info=error)
