"""Lifecycle of one worker process: start, run, drain, stop."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from windlass.background.lease_holder import BEAT_EVERY_S
from windlass.core.errors import BadInput, EngineUnavailable, WindlassError
from windlass.core.gc_tuning import freeze_startup_objects
from windlass.core.job import Job
from windlass.core.operations import WorkerInfo
from windlass.core.text.humanize import pluralize, quote_text
from windlass.core.text.similar_names import describe_missing_queue, suggest_name
from windlass.core.validation.bounds import NAMES_PER_WORKER, QUEUES_PER_TAKE, TAKE_MAX
from windlass.processes.pool import ChildPool
from windlass.processes.posix import IS_POSIX
from windlass.retry_loop import RetryLoop
from windlass.sdk.durations import Duration, duration_ms
from windlass.sdk.tasks.versions import META_KEY, read_version, refuse_gaps
from windlass.service import Service
from windlass.store.store import Store

from . import logs
from .event_loop_monitor import EventLoopMonitor
from .fetcher import Fetcher
from .heartbeat import HeartbeatThread
from .held_runs import HeldRuns
from .job_log import JobLog, RunReport
from .run import Run, StopReason
from .runner import JobRunner
from .stop import JobStopper
from .target import find_target
from .threads import JobThreadPool
from .version_snooze import VersionSnooze

if TYPE_CHECKING:
    from windlass.sdk.app import Windlass

log = logging.getLogger("windlass.worker")

UNWIND_S = 2.0  # time for stopped code to end when the worker ends
DEFAULT_LEASE_MS = 30_000  # shorter leases need a shorter interval between heartbeats
REMOTE_BEAT_EVERY_S = 3.0  # a server passes on requests to stop only with heartbeats


class Worker:
    """Worker: `await worker.run()` until `stop()`; with `burst`, until its queues have nothing to take."""

    def __init__(
        self,
        app: Windlass,
        *,
        queues: Sequence[str] = (),
        concurrency: int = 16,
        grace: Duration = "30s",
        burst: bool = False,
        has_loops: bool = True,
        name: str = "",
        job_log: bool | None = None,  # log a line for each job that ends; None: the setting `job_log`
        target: str = "",  # `module:attribute` of the app, for child processes
        id: bytes = b"",  # noqa: A002 (a supervisor sets it, so that it can recover the worker's jobs)
    ) -> None:
        self.app = app
        self.queues = tuple(queues) or app.queues()
        if len(self.queues) > QUEUES_PER_TAKE:
            raise BadInput(f"A worker serves at most {QUEUES_PER_TAKE} queues; start several workers.")
        if not 1 <= concurrency <= TAKE_MAX:
            raise BadInput(f"concurrency must be between 1 and {TAKE_MAX}, not {concurrency}.")
        refuse_gaps(app.tasks.values())
        self.concurrency = concurrency
        self.name = name
        self.id = id or secrets.token_bytes(16)
        self.done = 0  # reported jobs
        self._grace_s = duration_ms("grace", grace) / 1000
        self._is_burst = burst
        self._has_loops = has_loops
        self._logs_jobs = job_log
        has_process_tasks = any(task.pool == "process" for task in app.tasks.values())
        if has_process_tasks and not IS_POSIX:
            raise BadInput('pool="process" needs Linux or macOS: use pool="thread" for these tasks.')
        self._target = target or (find_target(app) if has_process_tasks else "")
        self._runs: dict[bytes, Run] = {}  # until their ends are reported
        self._ends_at_s: float | None = None  # when running jobs are released
        self._is_stopping = False
        self._is_ready = asyncio.Event()
        self._fetcher: Fetcher | None = None
        self._version_snooze: VersionSnooze | None = None

    @property
    def running(self) -> int:
        """Number of running jobs."""
        return len(self._runs)

    @property
    def is_ready(self) -> bool:
        return self._is_ready.is_set()

    async def wait_until_ready(self) -> None:
        """Wait until the worker is registered and takes jobs."""
        await self._is_ready.wait()

    async def run(self) -> None:
        self._loop = asyncio.get_running_loop()
        connecting = RetryLoop(log, "Could not reach the engine", EngineUnavailable)
        self._service = await connecting.until_done(self._connect)
        self._thread_pool = JobThreadPool(self.concurrency)
        command = (sys.executable, "-m", "windlass.sdk.worker.child")
        self._children = ChildPool(self._target, most=self.concurrency, command=command, logging=logs.current_logging)
        self._held = self._new_held_runs()
        await self._warn_of_missing_queues()
        self._monitor = EventLoopMonitor(self._runs)
        self._heartbeat = self._new_heartbeat()
        await self._heartbeat.start()
        self._fetcher = Fetcher(
            self._service,
            self.id,
            self.queues,
            self.concurrency,
            names=self.app.tasks,
            admit=self._held.reconciler.admit,
            start=self._start,
            on_reported=self._on_reported,
            on_lost=self._held.stop_lost,
        )
        self._runner = self._new_runner(self._fetcher)
        self._version_snooze = VersionSnooze(self._service)
        self._stopper = JobStopper(self._runs.values, self._runner.abandon)
        log.info(
            "Worker %s serves %s with %d slots.",
            self.name or self.id.hex()[:8],
            ", ".join(self.queues),
            self.concurrency,
        )
        freeze_startup_objects()
        self._is_ready.set()
        if self._is_stopping:
            self._fetcher.close()
        try:
            await self._work(self._fetcher)
        finally:
            await self._shut_down(self._fetcher)

    def stop(self) -> None:
        """Take no more jobs. Running jobs have the grace period to end; a second call releases them at once."""
        grace_s = 0.0 if self._is_stopping else self._grace_s
        self._is_stopping = True
        self._ends_at_s = asyncio.get_running_loop().time() + grace_s
        if self._fetcher is not None:
            self._fetcher.close()

    # Lifecycle

    async def _connect(self) -> Service:
        service = await self.app.aservice()
        await self.app.declared.apply(service)
        return service

    async def _warn_of_missing_queues(self) -> None:
        """Log the queues that neither exist nor are those of a task: their names may be misspelt."""
        own = self.app.queues()
        for queue in sorted(set(self.queues) - set(own)):
            try:
                presence = await self._service.queue_presence(queue)
            except WindlassError:  # a token to work may not read queues
                return
            if not presence.exists:
                missing = f"Queue {quote_text(queue)} does not exist yet"
                suggestion = presence.suggestion or suggest_name(queue, own)
                log.warning("%s The worker waits for its first job.", describe_missing_queue(missing, suggestion))

    def _new_held_runs(self) -> HeldRuns:
        return HeldRuns(
            self._service,
            self._runs,
            unstarted=self._unstarted,
            stop=self._stop_run,
            stop_worker=self._on_stop_worker,
        )

    def _new_heartbeat(self) -> HeartbeatThread:
        is_engine = isinstance(self.app.any_store, Store)  # else a server runs the loops
        names = self.app.known_names()
        info = WorkerInfo(
            host=socket.gethostname()[:255],
            pid=os.getpid(),
            queues=self.queues,
            slots=self.concurrency,
            name=self.name,
            names=names if len(names) <= NAMES_PER_WORKER else (),
        )
        return HeartbeatThread(
            self.app.any_store,
            self.id,
            info,
            self._held,
            self._monitor,
            has_loops=self._has_loops and is_engine,
            beat_every_s=BEAT_EVERY_S if is_engine else REMOTE_BEAT_EVERY_S,
        )

    def _new_runner(self, fetcher: Fetcher) -> JobRunner:
        self._job_log = JobLog(self.app.settings.job_log if self._logs_jobs is None else self._logs_jobs)
        return JobRunner(
            self.app,
            self._service,
            self._heartbeat.progress,
            threads=self._thread_pool,
            children=self._children,
            job_log=self._job_log,
            on_ended=self._on_ended,
            on_slot_freed=fetcher.free_slot,
            on_raised=self._on_raised,
        )

    async def _work(self, fetcher: Fetcher) -> None:
        while True:
            if self._is_stopping and (not self._runs or self._is_grace_over()):
                return
            await fetcher.step(self._ends_at_s, waits=not self._is_burst)
            if self._is_burst and fetcher.is_empty and not self._runs and not self._is_stopping:
                self.stop()

    def _is_grace_over(self) -> bool:
        return self._ends_at_s is not None and self._loop.time() >= self._ends_at_s

    async def _shut_down(self, fetcher: Fetcher) -> None:
        self._is_stopping = True
        fetcher.close()
        self._stopper.close()
        self._held.reconciler.close()
        try:
            await self._stop_remaining(fetcher)
            if self._version_snooze is not None:
                await self._version_snooze.close(UNWIND_S)
        finally:
            await self._heartbeat.close()
            await self._runner.shared.close()
            await self._close_pools()

    async def _close_pools(self) -> None:
        await self._children.close()
        stuck = self._thread_pool.close()
        if stuck:
            log.warning("%d threads are stuck. They end with the process.", stuck)
        self._job_log.flush()
        log.info("The worker has stopped after %s.", pluralize(self.done, "job"))

    async def _stop_remaining(self, fetcher: Fetcher) -> None:
        """Stop running jobs and release them, without spending an attempt."""
        for run in list(self._runs.values()):
            self._stopper.stop(run, "shutdown")
        give_up_at_s = self._loop.time() + UNWIND_S
        while fetcher.occupied and self._loop.time() < give_up_at_s:
            await fetcher.step(give_up_at_s)
        for run in list(self._runs.values()):
            self._runner.abandon(run)
        try:
            async with asyncio.timeout(UNWIND_S):
                await fetcher.drain()
        except TimeoutError:
            log.warning("Could not release all jobs within %g s. Their leases will expire.", UNWIND_S)

    # Slots

    def _start(self, jobs: list[Job]) -> list[Job]:
        assert self._fetcher is not None  # noqa: S101 (the fetcher calls this)
        unknown = []
        early_cancels = self._heartbeat.holder.early_cancels
        for job in jobs:
            task = self.app.tasks.get(job.name)
            if task is None:
                unknown.append(job)
                continue
            has_meta = job.payload.data.find(META_KEY) >= 0  # a tenth of the cost of `in`
            if has_meta and read_version(job.payload) > task.version:
                assert self._version_snooze is not None  # noqa: S101 (made before the first job is taken)
                self._version_snooze.snooze(job, task)
                self._fetcher.free_slot()
                continue
            if not job.timeout_ms or not job.retry.tries:  # jobs of the SDK mostly have both
                task.complete_policy(job)
            run = self._runner.start(job, task, has_meta)
            self._runs[job.id] = run
            self._stopper.watch(run)
            if run.lease_ms < DEFAULT_LEASE_MS:
                self._heartbeat.expect_lease(run.lease_ms)
            if early_cancels and job.id in early_cancels:
                self._stopper.stop(run, "cancelled")
        self._monitor.begin()
        self._heartbeat.expect_busy()
        return unknown

    def _on_ended(self, run: Run, outcome: RunReport) -> None:
        assert self._fetcher is not None  # noqa: S101 (no job runs without a fetcher)
        self._heartbeat.recorder.add(run.job.queue, run.job.name, outcome, self._loop.time() - run.started_s)
        if self._heartbeat.progress.has_pending(run.job):
            self._loop.create_task(self._flush_then_end(run, outcome))
        else:
            self._fetcher.add_outcome(run, outcome)

    async def _flush_then_end(self, run: Run, outcome: RunReport) -> None:
        """Send pending progress, values and log lines before the end is reported."""
        assert self._fetcher is not None  # noqa: S101 (no job runs without a fetcher)
        await self._heartbeat.flush()
        self._fetcher.add_outcome(run, outcome)

    def _on_raised(self, run: Run, error: BaseException) -> None:
        """Hook for tests that need the exception itself."""

    def _on_reported(self, runs: Sequence[Run]) -> None:
        self.done += len(runs)
        for run in runs:
            if self._runs.get(run.job.id) is run:
                del self._runs[run.job.id]

    def _unstarted(self) -> list[Job]:
        """Return the jobs that were taken and do not run."""
        waiting = self._fetcher.unstarted if self._fetcher is not None else []
        return waiting + (self._version_snooze.jobs if self._version_snooze is not None else [])

    def _stop_run(self, run: Run, why: StopReason) -> None:
        self._stopper.stop(run, why)

    def _on_stop_worker(self) -> None:
        """Stop the worker on request. Each heartbeat repeats the request; only the first counts."""
        if not self._is_stopping:
            log.info("This worker was asked to stop; draining.")
            self.stop()
