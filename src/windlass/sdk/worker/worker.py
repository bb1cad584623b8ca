"""A worker: one process that runs jobs. This is its life; what it does in it is in the files beside."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from windlass.background.reconciler import Reconciler
from windlass.core.errors import BadInput, EngineUnavailable
from windlass.core.gc_tuning import settle
from windlass.core.job import Job
from windlass.core.operations import Held, WorkerInfo
from windlass.core.text.humanize import counted
from windlass.core.validation.bounds import QUEUES_PER_TAKE, TAKE_MAX
from windlass.processes.children import Children
from windlass.sdk.durations import Duration, duration_ms
from windlass.sdk.tasks.versions import META_KEY, read_version, refuse_gaps
from windlass.service import Service
from windlass.store.store import Store

from . import logs
from .fetcher import Fetcher
from .heartbeat import BEAT_EVERY_S, HeartbeatThread
from .run import Run
from .runner import JobRunner, RunReport
from .stop import JobStopper
from .target import find_target
from .threads import ThreadPool
from .version_snooze import VersionSnooze

if TYPE_CHECKING:
    from windlass.sdk.app import Windlass

log = logging.getLogger("windlass.worker")

TROUBLE_PAUSE_S = 1.0
UNWIND_S = 2.0  # for code that is stopped because the worker ends
EARLY_MAX = 1_000
LEASE_MS = 30_000  # up to here the keeper's own rhythm is enough
REMOTE_BEAT_EVERY_S = 3.0  # a server tells of requests to stop with heartbeats only


class Worker:
    """`await worker.run()` until `stop()`; with `burst`, until its queues have nothing to take."""

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
        target: str = "",  # `module:attribute` of the app, for child processes
        id: bytes = b"",  # noqa: A002 (given by a supervisor, who must know whose jobs to free)
    ) -> None:
        self.app = app
        self.queues = tuple(queues) or app.queues()
        if len(self.queues) > QUEUES_PER_TAKE:
            raise BadInput(f"A worker serves at most {QUEUES_PER_TAKE} queues; start several.")
        if not 1 <= concurrency <= TAKE_MAX:
            raise BadInput(f"concurrency must lie between 1 and {TAKE_MAX}, not be {concurrency}.")
        refuse_gaps(app.tasks.values())
        self.concurrency = concurrency
        self.name = name
        self.id = id or secrets.token_bytes(16)
        self.done = 0  # jobs whose end was told
        self._grace_s = duration_ms("grace", grace) / 1000
        self._is_burst = burst
        self._has_loops = has_loops
        has_process_tasks = any(task.pool == "process" for task in app.tasks.values())
        self._target = target or (find_target(app) if has_process_tasks else "")
        self._runs: dict[bytes, Run] = {}  # until the engine has been told
        self._ends_at_s: float | None = None  # when what still runs is given back
        self._is_stopping = False
        self._is_ready = asyncio.Event()
        self._pump: Fetcher | None = None
        self._postponing: VersionSnooze | None = None
        self._asked_early: deque[bytes] = deque(maxlen=EARLY_MAX)  # to stop, before their jobs were in hand

    @property
    def running(self) -> int:
        """Jobs in hand."""
        return len(self._runs)

    @property
    def is_ready(self) -> bool:
        return self._is_ready.is_set()

    async def wait_until_ready(self) -> None:
        """Returns when it is registered and takes jobs."""
        await self._is_ready.wait()

    async def run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._service = await self._connected()
        self._threads = ThreadPool(self.concurrency)
        command = (sys.executable, "-m", "windlass.sdk.worker.child")
        self._children = Children(self._target, most=self.concurrency, command=command, logging=logs.current_logging)
        self._reconciler = Reconciler(self._service, self._holds)
        self._keeper = self._new_keeper()
        await self._keeper.start()
        self._pump = Fetcher(
            self._service,
            self.id,
            self.queues,
            self.concurrency,
            admit=self._reconciler.admit,
            start=self._start,
            told=self._told,
            lost=self._lost_at_once,
        )
        self._running = JobRunner(
            self.app,
            self._service,
            self._keeper.teller,
            threads=self._threads,
            children=self._children,
            ended=self._ended,
            vacated=self._pump.vacated,
            raised=self._raised,
        )
        self._postponing = VersionSnooze(self._service)
        self._stopping = JobStopper(self._runs.values, self._running.abandon)
        log.info(
            "Worker %s serves %s with %d slots.",
            self.name or self.id.hex()[:8],
            ", ".join(self.queues),
            self.concurrency,
        )
        settle()
        self._is_ready.set()
        if self._is_stopping:
            self._pump.close()
        try:
            await self._work(self._pump)
        finally:
            await self._leave(self._pump)

    def stop(self) -> None:
        """Takes no more. What runs has the grace to end; called again, it is given back at once."""
        grace_s = 0.0 if self._is_stopping else self._grace_s
        self._is_stopping = True
        self._ends_at_s = asyncio.get_running_loop().time() + grace_s
        if self._pump is not None:
            self._pump.close()

    # Its life

    async def _connected(self) -> Service:
        while True:
            try:
                service = await self.app.aservice()
                await self.app.declarations.apply(service)
                return service
            except EngineUnavailable as error:
                log.warning("The engine cannot be reached (%s); still trying.", error)
                await asyncio.sleep(TROUBLE_PAUSE_S)

    def _new_keeper(self) -> HeartbeatThread:
        is_engine = isinstance(self.app.any_store, Store)  # else a server runs the loops
        info = WorkerInfo(
            host=socket.gethostname()[:255], pid=os.getpid(), queues=self.queues, slots=self.concurrency, name=self.name
        )
        return HeartbeatThread(
            self.app.any_store,
            self.id,
            info,
            runs=lambda: list(self._runs.values()),
            held=self._held,
            unclaimed=lambda leases: self._from_outside(self._reconciler.begin, leases),
            lost=lambda run: self._from_outside(self._lost, run),
            stop=self._asked_to_stop,
            dismissed=lambda: self._from_outside(self._dismiss),
            has_loops=self._has_loops and is_engine,
            beat_every_s=BEAT_EVERY_S if is_engine else REMOTE_BEAT_EVERY_S,
        )

    async def _work(self, pump: Fetcher) -> None:
        while True:
            if self._is_stopping and (not self._runs or self._is_grace_over()):
                return
            await pump.turn(self._ends_at_s, waits=not self._is_burst)
            if self._is_burst and pump.is_empty and not self._runs and not self._is_stopping:
                self.stop()

    def _is_grace_over(self) -> bool:
        return self._ends_at_s is not None and self._loop.time() >= self._ends_at_s

    async def _leave(self, pump: Fetcher) -> None:
        self._is_stopping = True
        pump.close()
        self._stopping.close()
        self._reconciler.close()
        try:
            await self._stop_the_rest(pump)
            if self._postponing is not None:
                await self._postponing.close(UNWIND_S)
        finally:
            await self._keeper.close(forget=True)
            await self._running.shared.close()
            await self._close_pools()

    async def _close_pools(self) -> None:
        await self._children.close()
        stuck = self._threads.close()
        if stuck:
            log.warning("%d threads do not end; they end with the process.", stuck)
        log.info("The worker has ended after %s.", counted(self.done, "job"))

    async def _stop_the_rest(self, pump: Fetcher) -> None:
        """What still runs is stopped and given back: no attempt is spent."""
        for run in list(self._runs.values()):
            self._stopping.stop(run, "shutdown")
        give_up_at_s = self._loop.time() + UNWIND_S
        while pump.occupied and self._loop.time() < give_up_at_s:
            await pump.turn(give_up_at_s)
        for run in list(self._runs.values()):
            self._running.abandon(run)
        try:
            async with asyncio.timeout(UNWIND_S):
                await pump.drained()
        except TimeoutError:
            log.warning("What was held could not be given back in time; its leases run out.")

    # At the slots

    def _start(self, jobs: list[Job]) -> list[Job]:
        assert self._pump is not None  # noqa: S101 (it brought them)
        unknown = []
        for job in jobs:
            task = self.app.tasks.get(job.name)
            if task is None:
                unknown.append(job)
                continue
            if job.payload.data.find(META_KEY) >= 0 and read_version(job.payload) > task.version:
                assert self._postponing is not None  # noqa: S101 (made before the first job is taken)
                self._postponing.put_off(job, task)
                self._pump.vacated()
                continue
            run = self._running.start(job, task)
            self._runs[job.id] = run
            self._stopping.watch(run)
            if run.lease_ms < LEASE_MS:
                self._keeper.holds(run.lease_ms)
            if self._asked_early and job.id in self._asked_early:
                self._stopping.stop(run, "cancelled")
        return unknown

    def _ended(self, run: Run, outcome: RunReport) -> None:
        assert self._pump is not None  # noqa: S101 (no job runs without one)
        if self._keeper.teller.is_owing(run.job):
            self._loop.create_task(self._ended_saying(run, outcome))
        else:
            self._pump.ended(run, outcome)

    async def _ended_saying(self, run: Run, outcome: RunReport) -> None:
        """What it said comes before its end."""
        assert self._pump is not None  # noqa: S101 (no job runs without one)
        await self._keeper.flush()
        self._pump.ended(run, outcome)

    def _raised(self, run: Run, error: BaseException) -> None:
        """For tests, which want the exception itself."""

    def _told(self, runs: Sequence[Run]) -> None:
        self.done += len(runs)
        for run in runs:
            if self._runs.get(run.job.id) is run:
                del self._runs[run.job.id]

    def _unstarted(self) -> list[Job]:
        """Jobs in hand whose code does not run."""
        waiting = self._pump.unstarted if self._pump is not None else []
        return waiting + (self._postponing.jobs if self._postponing is not None else [])

    def _holds(self, lease: Held) -> bool:
        run = self._runs.get(lease.id)
        known = [*([run.job] if run is not None else []), *self._unstarted()]
        return any(job.id == lease.id and job.lease_token == lease.token for job in known)

    def _lost_at_once(self, job: Job) -> None:
        """Handed over, and gone to another before it was accepted."""
        run = self._runs.get(job.id)
        if run is not None and run.job.lease_token == job.lease_token:
            self._lost(run)

    # What the keeper hears, in its thread

    def _held(self) -> list[bytes]:
        """The ids of all jobs in hand. The code of a lost job may still run; its lease is another's."""
        runs = [run.job.id for run in list(self._runs.values()) if run.stop != "lost"]
        return [*runs, *(job.id for job in self._unstarted())]

    def _from_outside(self, act: Callable[..., Any], *args: Any) -> None:
        self._loop.call_soon_threadsafe(act, *args)

    def _asked_to_stop(self, job_id: bytes) -> None:
        run = self._runs.get(job_id)
        if run is None:
            self._asked_early.append(job_id)
            return
        run.request_stop()  # at once, for a thread that looks at it
        self._from_outside(self._stopping.stop, run, "cancelled")

    def _dismiss(self) -> None:
        """Somebody has asked for it from outside; each heartbeat says so again, once is enough."""
        if not self._is_stopping:
            log.info("This worker was asked to end.")
            self.stop()

    def _lost(self, run: Run) -> None:
        if self._runs.get(run.job.id) is run and not run.is_reported:
            log.warning("Job %s (%s) is lost to another worker; its code is stopped.", run.job.key, run.job.name)
            self._stopping.stop(run, "lost")
