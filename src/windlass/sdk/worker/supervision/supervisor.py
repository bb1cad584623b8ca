"""Supervisor: parent of several worker processes.

It keeps their number, restarts dead processes, recovers their jobs and passes on requests to stop. It runs no job and
imports nothing of the application; workers send it the facts that it needs.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from windlass.core.errors import EngineNotPermitted, EngineUnavailable, WindlassError
from windlass.core.text.humanize import describe_exit
from windlass.sdk.deployment import make_service, make_store
from windlass.service import Service
from windlass.settings import Settings

from .autoscaler import Autoscaler, Load
from .file_watcher import FileWatcher
from .orphan_recovery import recover_orphans, release_jobs
from .protocol import LoadedMessage, Message, NotLoadedMessage, ReadyMessage, WorkingMessage
from .worker_process import WorkerProcess

log = logging.getLogger("windlass.supervisor")

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
STEADY_S = 60.0  # a process that has lived this long resets the pause
UNWIND_S = 15.0  # beyond the grace period; a worker takes up to 9 s to stop its pools and deregister
LOOK_EVERY_S = 1.5  # between looks at the queues, while there is activity
WATCH_EVERY_S = 0.5
RETRY_PAUSE_S = 1.0


class Supervisor:
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
        self._command = command
        self._autoscaler = autoscaler
        self._grace_s = grace_s
        self._is_reloading = is_reloading
        self._is_burst = is_burst
        self._announce = announce
        self._processes: list[WorkerProcess] = []
        self._wanted = autoscaler.least
        self._loaded: LoadedMessage | None = None  # the newest
        self._was_ready = False  # some process was ready once
        self._is_broken = False  # the present code cannot be loaded
        self._is_stopping = False  # no process is started any more
        self._stops = 0
        self._deaths = 0  # in a row
        self._not_before_s = 0.0
        self._exit_code = 0
        self._file_watcher = FileWatcher()
        self._changed, self._has_activity = asyncio.Event(), asyncio.Event()
        self._service: Service | None = None
        self._background: set[asyncio.Task[Any]] = set()
        self._recoveries: set[asyncio.Task[Any]] = set()

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes]

    async def run(self) -> int:
        self._loop = asyncio.get_running_loop()
        if self._is_reloading:
            self._run_in_background(self._watch())
        if self._autoscaler.most > self._autoscaler.least:
            self._run_in_background(self._scale())
        try:
            while not self._is_stopping or self._processes:
                await self._fill()
                await self._changed.wait()
                self._changed.clear()
        finally:
            await self._shut_down()
        return self._exit_code

    def stop(self) -> None:
        """Stop all processes.

        The first call lets them finish running jobs, the second makes them release running jobs, the third kills them.
        """
        self._is_stopping = True
        self._stops += 1
        for process in self._processes:
            self._stop(process)
        if self._processes:
            log.info("Stopping all worker processes%s.", "" if self._stops == 1 else " at once")
        self._changed.set()

    def dump(self) -> None:
        """Make all processes write their stacks to stderr."""
        for process in self._processes:
            if process.loaded:  # before that, the signal would end it
                process.signal(signal.SIGUSR1)

    # Number of processes

    def _staying(self) -> list[WorkerProcess]:
        return [process for process in self._processes if not process.is_stopping]

    async def _fill(self) -> None:
        """Start missing processes and stop surplus ones. The first process shows whether the code can be loaded."""
        staying = self._staying()
        surplus = max(0, len(staying) - self._wanted)
        for process in sorted(staying, key=lambda process: (process.running, -process.number))[:surplus]:
            log.info("Stopping worker process %d: it is no longer needed.", process.pid)
            self._stop(process)
        is_trying = bool(staying) and not any(process.loaded for process in staying)
        if self._is_stopping or self._is_broken or is_trying or len(staying) >= self._wanted:
            return
        pause_s = self._not_before_s - time.monotonic()
        if pause_s > 0:
            self._loop.call_later(pause_s, self._changed.set)
            return
        try:
            for _ in range(self._wanted - len(staying) if staying else 1):
                await self._start()
        except OSError as error:
            self._not_before_s = time.monotonic() + LONGEST_PAUSE_S
            self._loop.call_later(LONGEST_PAUSE_S, self._changed.set)
            log.error("Could not start a worker process: %s. Trying again in %g s.", error, LONGEST_PAUSE_S)

    async def _start(self) -> None:
        taken = {process.number for process in self._processes}
        process = WorkerProcess(next(number for number in range(1, len(taken) + 2) if number not in taken))
        await process.start(self._command(process.number))
        self._processes.append(process)
        if self._is_stopping:
            self._stop(process)  # the request came while it started
        self._run_in_background(self._follow_process(process))

    async def _follow_process(self, process: WorkerProcess) -> None:
        code = await process.follow(lambda message: self._receive(process, message))
        self._processes.remove(process)
        self._ended(process, code)
        self._changed.set()

    def _stop(self, process: WorkerProcess) -> None:
        if self._stops > 2:
            process.kill()
            return
        process.stop_now() if self._stops == 2 else process.stop()
        patience_s = UNWIND_S if self._stops == 2 else self._grace_s + UNWIND_S
        self._loop.call_later(patience_s, self._kill_if_alive, process)

    def _kill_if_alive(self, process: WorkerProcess) -> None:
        if process in self._processes:
            log.error("Worker process %d does not end; killing it.", process.pid)
            process.kill()

    # Messages

    def _receive(self, process: WorkerProcess, message: Message) -> None:
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
            if not self._was_ready and process.loaded:
                self._was_ready = True
                self._announce(process.loaded, message)
        self._changed.set()

    # Ends and recovery

    def _ended(self, process: WorkerProcess, code: int) -> None:
        if code and process.is_ready and process.loaded:
            self._start_recovery(process, code)
        if self._is_stopping or process.is_stopping:
            return
        if code == 0 and self._is_burst:
            self._is_stopping = True  # the queues are empty; the other processes end by themselves
        elif code > 0 and not process.is_ready and self._is_reloading:
            self._is_broken = True
            log.error("The worker could not start. It starts again when a file changes.")
        elif code > 0 and not self._was_ready:
            self._exit_code = code
            self.stop()
        else:
            self._pause(process, code)

    def _pause(self, process: WorkerProcess, code: int) -> None:
        """Wait before the replacement starts, longer with each death in a row."""
        now_s = time.monotonic()
        self._deaths = 0 if now_s - process.started_at_s >= STEADY_S else self._deaths
        pause_s = min(FIRST_PAUSE_S * 2**self._deaths, LONGEST_PAUSE_S)
        self._deaths = min(self._deaths + 1, 10)
        self._not_before_s = now_s + pause_s
        log.error("Worker process %d %s; restarting in %g s.", process.pid, describe_exit(code), pause_s)

    def _start_recovery(self, process: WorkerProcess, code: int) -> None:
        task = self._loop.create_task(self._recover_jobs(process, code))
        self._recoveries.add(task)
        task.add_done_callback(self._recoveries.discard)

    async def _recover_jobs(self, process: WorkerProcess, code: int) -> None:
        assert process.loaded is not None  # noqa: S101
        crash = f"Worker process {process.pid} {describe_exit(code)}."
        while True:
            try:
                service = await self._connect(process.loaded.settings)
                if process.was_killed:  # by the supervisor, so no job is at fault
                    await release_jobs(service, process.worker_id)
                    return
                freed = await recover_orphans(service, process.worker_id, process.loaded.tasks, crash)
                if freed:
                    log.warning(
                        "Worker process %d held %d jobs. Each spends an attempt and is retried while tries are left.",
                        process.pid,
                        freed,
                    )
                return
            except (EngineUnavailable, EngineNotPermitted) as error:
                log.warning(
                    "Could not recover the jobs of worker process %d: %s. Trying again in %g s.",
                    process.pid,
                    error,
                    RETRY_PAUSE_S,
                )
                await asyncio.sleep(RETRY_PAUSE_S)
            except WindlassError:
                log.exception(
                    "Could not recover the jobs of worker process %d. They run again when their leases have expired.",
                    process.pid,
                )
                return

    # Background work

    def _run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background_done)

    def _background_done(self, task: asyncio.Task[Any]) -> None:
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("A part of the supervisor has ended unexpectedly. Restart the worker.", exc_info=error)
            self._changed.set()

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
            if self._wanted > self._autoscaler.least:
                self._has_activity.set()
            await asyncio.sleep(LOOK_EVERY_S)

    async def _rescale(self) -> None:
        if self._loaded is None or self._is_stopping:
            return
        service = await self._connect(self._loaded.settings)
        stats = await service.stats(self._loaded.queues)
        load = Load(
            queued=sum(queue.queued for queue in stats if not queue.is_paused),
            oldest_age_ms=max((queue.oldest_age_ms or 0 for queue in stats if not queue.is_paused), default=0),
            running=sum(process.running for process in self._staying()),
        )
        count = self._autoscaler.decide(self._loop.time(), load, self._loaded.slots, self._wanted)
        if count != self._wanted:
            log.info(
                "Scaling to %d processes from %d: %d jobs queued, %d running.",
                count,
                self._wanted,
                load.queued,
                load.running,
            )
            self._wanted = count
            self._changed.set()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(WATCH_EVERY_S)
            files = self._file_watcher.find_changes()
            if files and not self._is_stopping:
                log.info("%s changed; restarting the worker processes.", ", ".join(files))
                self._is_broken, self._not_before_s, self._deaths = False, 0.0, 0
                for process in self._staying():
                    self._stop(process)
                self._changed.set()

    async def _shut_down(self) -> None:
        if self._recoveries:
            await asyncio.wait(self._recoveries, timeout=UNWIND_S)
        left = [*self._recoveries, *self._background]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        if self._service is not None:
            await self._service.store.close()
