"""Supervisor of worker processes: adds to the shared supervisor the recovery of jobs, the number of processes and
reloads.

It runs no job and imports nothing of the application; workers send it the facts that it needs.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Sequence
from typing import Any

from windlass.core.errors import WindlassError
from windlass.core.scale import Load
from windlass.processes.supervision_policy import graceful_stop
from windlass.processes.supervisor import ExitVerdict, Supervisor
from windlass.sdk.deployment import make_service, make_store
from windlass.service import Service
from windlass.settings import Settings

from .autoscaler import Autoscaler
from .file_watcher import FileWatcher
from .orphan_recovery import DeadWorker, recover_dead_worker
from .protocol import LoadedMessage, NotLoadedMessage, ReadyMessage, WorkingMessage, decode
from .worker_process import WorkerProcess

log = logging.getLogger("windlass.supervisor")

UNWIND_S = 15.0  # beyond the grace period; a worker takes up to 9 s to stop its pools and deregister
LOOK_EVERY_S = 1.5  # between looks at the queues, while there is activity
WATCH_EVERY_S = 0.5


class WorkerSupervisor(Supervisor[WorkerProcess]):
    """Supervisor of worker processes. `await supervisor.run()` returns the exit code."""

    def __init__(
        self,
        command: Callable[[int], Sequence[str]],  # by the number of the process
        autoscaler: Autoscaler,
        *,
        grace_s: float = 30.0,
        is_reloading: bool = False,
        is_burst: bool = False,
        announce: Callable[[LoadedMessage, ReadyMessage], None] = lambda loaded, ready: None,
    ) -> None:
        super().__init__(autoscaler.least, graceful_stop(grace_s, UNWIND_S), log, "worker process")
        self._command = command
        self._autoscaler = autoscaler
        self._is_reloading = is_reloading
        self._is_burst = is_burst
        self._announce = announce
        self._loaded: LoadedMessage | None = None  # the newest
        self._file_watcher = FileWatcher()
        self._has_activity = asyncio.Event()
        self._service: Service | None = None
        self._recoveries: set[asyncio.Task[Any]] = set()

    async def run(self) -> int:
        if self._is_reloading:
            self.run_in_background(self._watch())
        if self._autoscaler.most > self._autoscaler.least:
            self.run_in_background(self._scale())
        return await super().run()

    def stop(self) -> None:
        """Stop all processes.

        The first call lets them finish running jobs, the second makes them release running jobs, the third kills them.
        """
        super().stop()
        if self.processes:
            log.info("Stopping all worker processes%s.", "" if self.stops == 1 else " at once")

    def dump(self) -> None:
        """Make all processes write their stacks to stderr."""
        for process in self.processes:
            if process.loaded:  # before that, the signal would end it
                process.signal(signal.SIGUSR1)

    # Processes

    def make_process(self, number: int) -> WorkerProcess:
        return WorkerProcess(number)

    async def start_process(self, process: WorkerProcess) -> None:
        await process.start_with(self._command(process.number))

    def is_proven(self, process: WorkerProcess) -> bool:
        return process.loaded is not None

    def usefulness(self, process: WorkerProcess) -> tuple[int, ...]:
        return process.running, -process.number

    def receive(self, process: WorkerProcess, line: bytes) -> None:
        message = decode(line)
        if isinstance(message, LoadedMessage):
            process.loaded = self._loaded = message
            self._file_watcher.add(message.files)
        elif isinstance(message, NotLoadedMessage):
            self._file_watcher.add(message.files)
        elif isinstance(message, WorkingMessage):
            process.running = message.running
            self._has_activity.set()
        elif isinstance(message, ReadyMessage) and not process.is_ready:
            process.is_ready = True
            if not self.was_ready and process.loaded:
                self.was_ready = True
                self._announce(process.loaded, message)
        self.wake()

    # Ends and recovery

    def judge_exit(self, process: WorkerProcess, code: int) -> ExitVerdict:
        if code == 0 and self._is_burst:
            return ExitVerdict.FINISH  # the queues are empty
        if code > 0 and not process.is_ready and self._is_reloading:
            log.error("The worker could not start. It starts again when a file changes.")
            return ExitVerdict.HOLD
        # Before any process was ready, an exit code is an error of the program. A signal may come from outside.
        return super().judge_exit(process, code) if code > 0 else ExitVerdict.RESTART

    def process_ended(self, process: WorkerProcess, code: int) -> None:
        if not code or not process.is_ready or not process.loaded:
            return
        dead = DeadWorker(process.worker_id, process.pid, code, process.was_killed, process.loaded)
        task = self._loop.create_task(recover_dead_worker(dead, self._connect))
        self._recoveries.add(task)
        task.add_done_callback(self._recoveries.discard)

    # Background work

    async def _connect(self, settings: Settings) -> Service:
        if self._service is None:
            store = make_store(settings)
            await store.open()
            self._service = make_service(store)
        return self._service

    async def _scale(self) -> None:
        """Rescale while jobs run or more than the minimum of processes exist. Sends no requests when idle."""
        while True:
            await self._has_activity.wait()
            self._has_activity.clear()
            try:
                await self._rescale()
            except WindlassError as error:
                log.warning("Could not read the queues for scaling: %s. Trying again in %g s.", error, LOOK_EVERY_S)
                self._has_activity.set()
            if self.wanted > self._autoscaler.least:
                self._has_activity.set()
            await asyncio.sleep(LOOK_EVERY_S)

    async def _rescale(self) -> None:
        if self._loaded is None or self.is_ending:
            return
        service = await self._connect(self._loaded.settings)
        stats = await service.stats(self._loaded.queues)
        load = Load(
            queued=sum(queue.queued for queue in stats if not queue.is_paused),
            oldest_age_ms=max((queue.oldest_age_ms or 0 for queue in stats if not queue.is_paused), default=0),
            running=sum(process.running for process in self.staying),  # in the supervised processes
        )
        count = self._autoscaler.decide(self._loop.time(), load, self._loaded.slots, self.wanted)
        if count != self.wanted:
            log.info(
                "Scaling to %d processes from %d: %d jobs queued, %d running.",
                count,
                self.wanted,
                load.queued,
                load.running,
            )
            self.scale(count)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(WATCH_EVERY_S)
            files = self._file_watcher.find_changes()
            if files and not self.is_ending:
                log.info("%s changed; restarting the worker processes.", ", ".join(files))
                self.restart_all()

    async def close(self) -> None:
        if self._recoveries:
            await asyncio.wait(self._recoveries, timeout=UNWIND_S)
        left = list(self._recoveries)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        if self._service is not None:
            await self._service.store.close()
