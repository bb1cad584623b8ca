"""Test support for applications: a private engine, a movable clock, and jobs that run when the test says so.

The codec, the scripts, the background loops and the worker are the real ones. `testing_worker.py` counts the runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import msgspec

from windlass.background import runner
from windlass.background.recoverer import Recoverer
from windlass.background.scheduler import Scheduler
from windlass.core.durable import Signal
from windlass.core.errors import BadInput
from windlass.core.ids import parse_id
from windlass.core.job import Blob, Job
from windlass.core.operations import Listing
from windlass.core.validation.bounds import PAGE_MAX, QUEUES_PER_TAKE
from windlass.processes.event_loop import new_event_loop
from windlass.service import Service
from windlass.store.embedded import engine_for_tests
from windlass.store.store import Store

from .durations import Duration, duration_ms, instant_ms
from .tasks.arguments import BadArguments
from .tasks.codec import Unreadable, decode, encode
from .testing_worker import Summary, TestWorker, process_tasks_run_here

if TYPE_CHECKING:
    from .app import Windlass
    from .handle import JobHandle
    from .tasks.task import Call, Task

__all__ = ["EnqueuedCall", "Summary", "TestedJob", "Testing"]

T = TypeVar("T")
STATES = ("scheduled", "queued", "waiting", "suspended", "running", "finished", "failed", "cancelled", "history")
STUCK_STEP_MS = 1_000  # step if something stays due without happening
MOST = 10_000


class EnqueuedCall(msgspec.Struct, frozen=True, kw_only=True):
    """Call as a worker will see it."""

    id: str
    name: str
    queue: str
    arguments: dict[str, Any]
    status: str  # the answer of the enqueue


class TestedJob(msgspec.Struct, frozen=True, kw_only=True):
    """Job that is stored in the test's engine."""

    __test__ = False  # pytest must not collect it

    job: Job  # the complete record
    arguments: dict[str, Any]

    @property
    def id(self) -> str:
        return self.job.key

    @property
    def name(self) -> str:
        return self.job.name

    @property
    def queue(self) -> str:
        return self.job.queue

    @property
    def state(self) -> str:
        return self.job.state.label

    @property
    def run_at(self) -> datetime:
        return datetime.fromtimestamp(self.job.run_at_ms / 1000, UTC)


class Testing:
    """Test environment, made by `app.testing()`. The app's own connection is restored when the block ends."""

    __test__ = False

    def __init__(self, app: Windlass, now: datetime | None = None) -> None:
        self._app = app
        self._starts_at_ms = None if now is None else instant_ms("now", now)
        self._store: Store | None = None
        self._enqueued: dict[str, EnqueuedCall] = {}
        self._running = threading.Lock()
        self._runner: asyncio.Runner | None = None

    # The block

    def __enter__(self) -> Self:
        if self._store is not None:
            raise BadInput("This test has begun already: call app.testing() again.")
        store = engine_for_tests.open_test_store()
        try:
            self._app.begin_test(store, self._record_calls)
        except BaseException:
            engine_for_tests.close_test_store(store)
            raise
        self._store = store
        if self._starts_at_ms is not None:
            store.clock_offset_ms = self._starts_at_ms - self._now_ms()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        store, self._store = self._require_store(), None
        running, self._runner = self._runner, None
        with contextlib.ExitStack() as stack:  # runs all callbacks, last first, even if some raise
            stack.callback(engine_for_tests.close_test_store, store)
            stack.callback(self._app.end_test)
            if running is not None:
                stack.callback(running.close)

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._app.aclose()
        await asyncio.to_thread(self.__exit__, kind, error, trace)

    def _require_store(self) -> Store:
        if self._store is None:
            raise BadInput("This test has ended or has not begun: use it within `with app.testing() as t:`.")
        return self._store

    @contextlib.contextmanager
    def _exclusively(self) -> Iterator[None]:
        self._require_store()
        if not self._running.acquire(blocking=False):
            raise BadInput("This test is running its jobs: neither a job nor another thread can run them again.")
        try:
            with process_tasks_run_here(self._app):
                yield
        finally:
            self._running.release()

    # Running jobs

    def run_all(self, *, raises: bool = False, concurrency: int = 1, most: int = MOST) -> Summary:
        """Run all jobs that can run now, and the jobs that become runnable through them.

        With `raises`, the first error is raised afterwards.
        """
        return _raise_first_error(self._run_in_own_loop(lambda: self._run_all(concurrency, most), "arun_all()"), raises)

    async def arun_all(self, *, raises: bool = False, concurrency: int = 1, most: int = MOST) -> Summary:
        """Do the same as `run_all` in the test's own event loop."""
        with self._exclusively():
            return _raise_first_error(await self._run_all(concurrency, most), raises)

    def run_for(self, duration: Duration, *, raises: bool = False, concurrency: int = 1, most: int = MOST) -> Summary:
        """Advance the clock as `advance` does and run each job when it becomes runnable: retries, delays, cron."""
        for_ms = duration_ms("duration", duration)
        return _raise_first_error(
            self._run_in_own_loop(lambda: self._run_for(for_ms, concurrency, most), "arun_for(…)"), raises
        )

    async def arun_for(
        self, duration: Duration, *, raises: bool = False, concurrency: int = 1, most: int = MOST
    ) -> Summary:
        """Do the same as `run_for` in the test's own event loop."""
        for_ms = duration_ms("duration", duration)
        with self._exclusively():
            return _raise_first_error(await self._run_for(for_ms, concurrency, most), raises)

    def _run_in_own_loop(self, work: Callable[[], Coroutine[Any, Any, T]], instead: str) -> T:
        """Run in this thread, in one event loop for the whole test.

        Objects that jobs keep in the loop are there for the next jobs.
        """
        if _is_in_event_loop():
            raise BadInput(f"An event loop is running: use `await t.{instead}` instead.")
        with self._exclusively():
            if self._runner is None:
                self._runner = asyncio.Runner(loop_factory=new_event_loop)
            return self._runner.run(work())

    async def _run_all(self, concurrency: int, most: int) -> Summary:
        summary = Summary()
        await self._run_now(summary, concurrency, most)
        return summary

    async def _run_for(self, for_ms: int, concurrency: int, most: int) -> Summary:
        summary, service = Summary(), await self._app.aservice()
        await self._app.declared.apply(service)
        await self._pass_time(service, for_ms, lambda: self._run_now(summary, concurrency, most))
        return summary

    async def _run_now(self, summary: Summary, concurrency: int, most: int) -> None:
        service = await self._app.aservice()
        before = -1
        while summary.ran > before:
            before = summary.ran
            await self._settle(service)
            for queues in await self._queues(service):
                await TestWorker(self._app, summary, queues, concurrency, most).run()
                if summary.ran > most:
                    raise RuntimeError(
                        f"More than {most} attempts ran, and jobs are left. A job may enqueue itself; see `most`."
                    )

    async def _queues(self, service: Service) -> list[list[str]]:
        """Return all queues that have jobs or tasks, in groups that one take can serve."""
        names = sorted({*await service.queues(), *(task.queue for task in self._app.tasks.values())})
        return [names[start : start + QUEUES_PER_TAKE] for start in range(0, len(names), QUEUES_PER_TAKE)]

    # Time

    @property
    def now(self) -> datetime:
        """The engine's time, in UTC."""
        return datetime.fromtimestamp(self._now_ms() / 1000, UTC)

    def _now_ms(self) -> int:
        return Service(self._require_store()).promote().wait().now_ms

    def advance(self, duration: Duration) -> None:
        """Move the clock and run no job.

        Everything that falls due happens at its time: jobs become runnable, schedules fire, leases expire, old records
        are deleted.
        """
        by_ms = duration_ms("duration", duration)
        with self._exclusively():
            _run_in_thread(lambda: self._advance(by_ms))

    async def _advance(self, by_ms: int) -> None:
        async with self._require_store().clone() as twin:
            service = Service(twin)
            await self._app.declared.apply(service)

            async def nothing() -> None: ...

            await self._pass_time(service, by_ms, nothing)

    async def _pass_time(self, service: Service, left_ms: int, act: Callable[[], Awaitable[None]]) -> None:
        """Move the clock from one due instant to the next."""
        while True:
            await self._settle(service)
            await act()
            if left_ms <= 0:
                return
            due_in_ms = await self._due_in_ms(service)
            step_ms = left_ms if due_in_ms is None else min(left_ms, due_in_ms if due_in_ms > 0 else STUCK_STEP_MS)
            self._require_store().clock_offset_ms += step_ms
            left_ms -= step_ms

    async def _settle(self, service: Service) -> None:
        """Run the background loops until they have nothing left to do at this instant."""
        loops = runner.all_loops()
        while [tick for tick in [await loop.tick(service) for loop in loops] if tick.done]:
            pass

    async def _due_in_ms(self, service: Service) -> int | None:
        ticks = [await loop.tick(service) for loop in (Scheduler(), Recoverer())]
        return min((tick.next_at_ms - tick.now_ms for tick in ticks if tick.next_at_ms is not None), default=None)

    # Durable calls

    def signal(self, job: JobHandle[Any] | str, name: str, value: Any = None) -> str:
        """Send a signal to a job: `received` if the job waits for it, `kept` if it does not yet. Runs no job."""
        job_id = parse_id(job) if isinstance(job, str) else job.id_bytes
        return Service(self._require_store()).signal([Signal(id=job_id, name=name, value=encode(value))]).one().wait()

    @contextlib.contextmanager
    def stub_step(
        self, name: str, replacement: Callable[..., Any] | None = None, *, returns: Any = None
    ) -> Iterator[None]:
        """Replace the function of the steps of a name while the block runs: by a function, or by a value.

        The stub gets the arguments of the step. Its result is stored as that of the step.
        """
        stubs = self._app.step_stubs
        before = stubs.get(name)
        stubs[name] = replacement or (lambda *args: returns)
        try:
            yield
        finally:
            del stubs[name]
            if before is not None:
                stubs[name] = before

    # Inspection

    def jobs(self, *, queue: str = "", state: str = "", name: str = "") -> list[TestedJob]:
        """List stored jobs, optionally of one queue, state or name. Ended jobs may be deleted already.

        `name` may contain wildcards.
        """
        if state and state not in STATES:
            raise BadInput(f"{state!r} is not a state; use one of {', '.join(STATES)}.")
        service = Service(self._require_store())
        queues = [queue] if queue else service.queues().wait()
        states = [state] if state else STATES
        listings = [Listing(queue=queue, state=state, name=name, most=PAGE_MAX) for queue in queues for state in states]
        return [self._make_tested_job(job) for listing in listings for job in _pages(service, listing)]

    @property
    def enqueued(self) -> list[EnqueuedCall]:
        """Calls that the app has enqueued since the block began, in order, whatever happened to them.

        If several calls went into one job, the list has the last call that changed it.
        """
        return list(self._enqueued.values())

    def clear(self) -> None:
        """Delete all jobs, schedules, limits and queue settings. The clock stays where it is."""
        service = Service(self._require_store())
        for found in service.limits().wait():
            service.unlimit(found.limit.name).wait()
        engine_for_tests.clear_test_store(self._require_store())
        self._enqueued.clear()

    def _record_calls(self, calls: Sequence[Call[Any]], handles: Sequence[JobHandle[Any]]) -> None:
        for call, handle in zip(calls, handles, strict=True):
            if handle.status == "existing":
                continue
            arguments = call.decode_arguments()
            self._enqueued[handle.id] = EnqueuedCall(
                id=handle.id, name=call.task.name, queue=call.queue, arguments=arguments, status=handle.status
            )

    def _make_tested_job(self, job: Job) -> TestedJob:
        return TestedJob(job=job, arguments=_decode_arguments(self._app.tasks.get(job.name), job.payload))


def _decode_arguments(task: Task[..., Any] | None, payload: Blob) -> dict[str, Any]:
    """Decode arguments by parameter, typed as the task declares them, or as stored if the task is unknown."""
    if task is not None:
        with contextlib.suppress(BadArguments):
            call = task.signature.decode(payload, task.migrations.needed_for(payload))
            return task.signature.bind(call.args, call.kwargs)
    try:
        found = decode(payload)
    except Unreadable:
        found = payload.data
    return found if isinstance(found, dict) else {"": found}


def _pages(service: Service, listing: Listing) -> Iterator[Job]:
    while True:
        page = service.jobs(listing).wait()
        yield from page.jobs
        if not page.cursor:
            return
        listing = msgspec.structs.replace(listing, cursor=page.cursor)


def _is_in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _raise_first_error(summary: Summary, raises: bool) -> Summary:
    if raises and summary.errors:
        raise summary.errors[0]
    return summary


def _run_in_thread(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run in an event loop of another thread, so that callers with and without an event loop can use it."""
    problems: list[BaseException] = []

    def run() -> None:
        try:
            asyncio.run(work())
        except BaseException as error:
            problems.append(error)

    thread = threading.Thread(target=run, name="windlass-testing")
    thread.start()
    thread.join()
    if problems:
        raise problems[0]
