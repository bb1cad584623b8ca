"""Keeps what a worker holds, in a thread with an event loop and a store of its own: heartbeats, what jobs say, requests
to stop, and the loops. Code that blocks the worker's event loop does not stop it."""

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
BEAT_MS = 30_000  # a worker that is silent for so long counts as lost
BEAT_EVERY_S = 10.0
RETRY_PAUSE_S = 1.0
SHORTEST_BEAT_S = 0.05


class HeartbeatThread:
    """`runs` answers the jobs in hand, and `held` the ids of all jobs that the worker has received and not reported.
    `lost`, `stop` (a job), `unclaimed` (leases under the worker's name that `held` did not name) and `stop_worker` (the
    worker is to end) are called in the keeper's thread."""

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

    # For the worker, in its own loop

    async def start(self) -> None:
        """Returns when the worker is registered."""
        self._ready = self._worker_loop.create_future()
        self._thread.start()
        await self._ready

    async def close(self, *, forget: bool) -> None:
        """The last thing a worker does: what it still holds goes back."""
        if self._thread.is_alive():
            await self.call(self._deregister(forget))
            await asyncio.to_thread(self._thread.join)

    async def call(self, work: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def flush(self) -> None:
        """What jobs have said is with the engine."""
        await self.call(self.progress.flush())

    def beat_for_lease(self, lease_ms: int) -> None:
        """A job with so short a lease is in hand."""
        every_s = max(SHORTEST_BEAT_S, lease_ms / 3000)
        if every_s < self._beat_every_s:
            self._beat_every_s = every_s
            self._loop.call_soon_threadsafe(self._interval_changed.set)

    # In its thread

    def _work(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop_runner:
                loop_runner.run(self._main())
        except BaseException as error:
            log.exception("The keeper has ended; the worker's leases will run out.")
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
            log.warning("The worker could not take its leave (%s); its leases run out.", error)
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
                log.warning("The worker cannot register (%s); still trying.", error)
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
                log.warning("Heartbeats do not reach the engine (%s); still trying.", error)
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
        """A worker whose event loop does not answer is shown with what it does."""
        answered = threading.Event()
        self._worker_loop.call_soon_threadsafe(answered.set)
        self._loop.call_later(self._beat_every_s, self._warn_if_blocked, answered)

    def _warn_if_blocked(self, answered: threading.Event) -> None:
        frame = sys._current_frames().get(self._worker_thread)
        if not answered.is_set() and frame is not None:
            stack = "".join(traceback.format_stack(frame))
            log.warning("The worker's event loop is blocked; use a plain function or `await`. It is here:\n%s", stack)


def _log_early_end(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("A part of the worker's keeper has ended.", exc_info=error)
