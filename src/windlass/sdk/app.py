"""Application: its tasks and the jobs that it enqueues.

`connection.py` connects an application to its deployment. `worker/` runs the jobs.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from datetime import datetime
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    Unpack,
    overload,
)

from windlass.core.errors import BadInput, Refusal, WindlassError
from windlass.core.ids import parse_id
from windlass.core.job import Durability
from windlass.core.operations import Enqueued, Fail
from windlass.service import Service
from windlass.store.operation import BatchOperation

from .connection import AppConnection
from .context import Context
from .declarations import Declarations
from .durations import Duration
from .handle import JobHandle
from .sync_context import SyncContext
from .tasks.batch import AsyncBatchTask, BatchDecorator, SyncBatchTask, make_batch
from .tasks.depends import Factory, refuse_circle
from .tasks.middleware import M, Middleware, require_async_function
from .tasks.options import DEFAULT_QUEUE, TaskOptions
from .tasks.schedules import ScheduleDecorators
from .tasks.task import AsyncTask, Call, SyncTask, Task

if TYPE_CHECKING:
    from .testing import Testing

P = ParamSpec("P")
R = TypeVar("R")
BATCH_SIZE = 1_000  # jobs per call of a bulk enqueue
BATCHES_IN_FLIGHT = 2  # the next batch is encoded while the engine works on the other
EnqueueAnswers: TypeAlias = list[Enqueued | Refusal]

log = logging.getLogger("windlass.app")


class AnyArgument:
    """Marker type for type checkers: a function that accepts it as its first argument accepts anything there.

    Such a function does not take the context. Its calls are not type-checked.
    """


class TaskDecorator(Protocol):
    """Return type of `app.task(...)`. A context as the first parameter is not part of the calls."""

    # A coroutine function fits the overloads of plain functions, too: type checkers use the first that fits.
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[Concatenate[AnyArgument, P], Coroutine[Any, Any, R]], /
    ) -> AsyncTask[..., R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[AnyArgument, P], R], /) -> SyncTask[..., R]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[SyncContext, P], R], /) -> SyncTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> SyncTask[P, R]: ...


class Windlass(AppConnection, ScheduleDecorators):
    """Application: a set of tasks and a connection to one deployment.

    It connects on first use: to `url`, to WINDLASS_URL, or to the embedded engine. A URL that starts with http:// or
    https:// names a server; `token` is the access token for it.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        data_dir: str | None = None,
        namespace: str | None = None,
        durability: Durability | None = None,
        patience: Duration | None = None,
        token: str | None = None,
    ) -> None:
        super().__init__(
            url=url, data_dir=data_dir, namespace=namespace, durability=durability, patience=patience, token=token
        )
        self.tasks: dict[str, Task[..., Any]] = {}
        self.middlewares: list[Middleware] = []
        self.overrides: dict[Any, Factory] = {}
        self.step_stubs: dict[str, Callable[..., Any]] = {}  # functions that a test puts in the place of steps, by name
        # Returns the W3C traceparent of a new job. The id is empty for a schedule, whose jobs are made later.
        self.trace_source: Callable[[Call[Any], bytes], str] | None = None
        # Called with the report of each failed attempt, and the exception if the code has raised one. They are called
        # for runs with a context; an app with a middleware has no others.
        self.failure_hooks: list[Callable[[Context, Fail, BaseException | None], None]] = []
        self.declared = Declarations()

    # Tasks

    @overload
    def task(  # type: ignore[overload-overlap]
        self, function: Callable[Concatenate[AnyArgument, P], Coroutine[Any, Any, R]], /
    ) -> AsyncTask[..., R]: ...
    @overload
    def task(self, function: Callable[Concatenate[AnyArgument, P], R], /) -> SyncTask[..., R]: ...
    @overload
    def task(  # type: ignore[overload-overlap]
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...
    @overload
    def task(  # type: ignore[overload-overlap]
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...
    @overload
    def task(self, function: Callable[Concatenate[SyncContext, P], R], /) -> SyncTask[P, R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> SyncTask[P, R]: ...
    @overload
    def task(self, /, **options: Unpack[TaskOptions]) -> TaskDecorator: ...
    def task(self, function: Any = None, /, **options: Any) -> Any:
        """Make a task of a function: `@app.task`, or `@app.task(queue="mail", …)`."""
        if function is None:
            return lambda given: self._register(given, options)
        return self._register(function, options)

    def batch_task(self, *, most: int, wait: Duration = "50ms", **options: Unpack[TaskOptions]) -> BatchDecorator:
        """Make a task of a function that handles many jobs per call: `async def index(pages: list[Page])`."""
        batch = make_batch(most, wait)

        def declare(function: Any) -> Any:
            _require_function(function)
            kind = AsyncBatchTask if inspect.iscoroutinefunction(function) else SyncBatchTask
            return self._add(kind(self, function, batch, options))

        return declare

    def _register(self, function: Callable[..., Any], options: dict[str, Any]) -> Task[..., Any]:
        _require_function(function)
        kind = AsyncTask if inspect.iscoroutinefunction(function) else SyncTask
        return self._add(kind(self, function, options))

    def _add(self, made: Task[..., Any]) -> Task[..., Any]:
        known, function = self.tasks.get(made.name), made.function
        if known is not None and not _is_same(known.function, function):
            raise BadInput(
                f"A task named {made.name!r} exists already ({known.function.__module__}): give one of them another "
                "name=."
            )
        self.tasks[made.name] = made
        self.declared.add_task(made)
        return made

    def queues(self) -> tuple[str, ...]:
        """Return the queues that a worker serves when none are given."""
        return tuple(sorted({task.queue for task in self.tasks.values()})) or (DEFAULT_QUEUE,)

    def known_names(self) -> tuple[str, ...]:
        """Return the names of all tasks, for the registration of a worker. Empty: tasks are looked up on demand."""
        return tuple(sorted(self.tasks))

    def middleware(self, function: M) -> M:
        """Register a middleware that is called around each job: `async def timed(ctx, call_next): …`."""
        require_async_function(function)
        self.middlewares.append(function)
        return function

    @contextlib.contextmanager
    def override(self, factory: Callable[..., Any], replacement: Callable[..., Any]) -> Iterator[None]:
        """Replace a dependency's factory while the block runs. For tests."""
        made = Factory(replacement)
        refuse_circle(made, {**self.overrides, factory: made})
        before = self.overrides.get(factory)
        self.overrides[factory] = made
        try:
            yield
        finally:
            del self.overrides[factory]
            if before is not None:
                self.overrides[factory] = before

    # Jobs

    def enqueue_many(self, calls: Iterable[Call[R]], *, durability: Durability | None = None) -> list[JobHandle[R]]:
        """Enqueue many calls in batches of 1,000, with two batches in flight.

        If a call is refused, its refusal is raised. The other calls of its batch and of the batch after it may have
        been accepted.
        """
        handles: list[JobHandle[R]] = []
        in_flight: deque[tuple[list[Call[R]], Callable[[], EnqueueAnswers]]] = deque()
        try:
            for batch in _split_batches(calls):
                in_flight.append((batch, _enqueue_batch(self.service, batch, durability).start_sync()))
                if len(in_flight) == BATCHES_IN_FLIGHT:
                    handles += self._wait_for_handles(*in_flight.popleft())
            while in_flight:
                handles += self._wait_for_handles(*in_flight.popleft())
        finally:
            for _, wait in in_flight:  # after an error: read the answers of batches that were sent
                with contextlib.suppress(WindlassError):
                    wait()
        return handles

    def _wait_for_handles(self, batch: list[Call[R]], wait: Callable[[], EnqueueAnswers]) -> list[JobHandle[R]]:
        return self.make_handles(batch, wait())

    async def aenqueue_many(
        self, calls: Iterable[Call[R]], *, durability: Durability | None = None
    ) -> list[JobHandle[R]]:
        service = await self.aservice()
        handles: list[JobHandle[R]] = []
        in_flight: deque[tuple[list[Call[R]], asyncio.Future[EnqueueAnswers]]] = deque()
        try:
            for batch in _split_batches(calls):
                in_flight.append((batch, asyncio.ensure_future(_enqueue_batch(service, batch, durability))))
                if len(in_flight) == BATCHES_IN_FLIGHT:
                    handles += self.make_handles(in_flight[0][0], await in_flight[0][1])
                    in_flight.popleft()
            for batch, answers in in_flight:
                handles += self.make_handles(batch, await answers)
        finally:
            for _, answers in in_flight:
                answers.cancel()
        return handles

    def make_handles(self, calls: Sequence[Call[R]], answers: Sequence[Enqueued | Refusal]) -> list[JobHandle[R]]:
        handles: list[JobHandle[R]] = []
        for call, answer in zip(calls, answers, strict=True):
            if isinstance(answer, Refusal):
                raise answer
            handles.append(JobHandle(self, answer.id, answer.status, call.task.result_type, call.options.keeps_result))
        self.notify_enqueued(calls, handles)
        return handles

    def make_handle(self, call: Call[R], answer: Enqueued) -> JobHandle[R]:
        handle: JobHandle[R] = JobHandle(
            self, answer.id, answer.status, call.task.result_type, call.options.keeps_result
        )
        if self._on_enqueued is not None:
            self._on_enqueued((call,), (handle,))
        return handle

    def job(self, job_id: str) -> JobHandle[Any]:
        """Return the handle of a job by its id."""
        return JobHandle(self, parse_id(job_id))

    def child_handler(self) -> Callable[[bytes], bytes]:
        """Return the function that runs jobs in a child process of a worker."""
        from .worker.process_job import make_handler

        return make_handler(self)

    def testing(self, *, now: datetime | None = None) -> Testing:
        """Use a private engine with a movable clock while the block runs. For tests.

        Use it as `with app.testing() as t:` or `async with`. `now` sets the clock at the start; `t` moves it.
        """
        from .testing import Testing

        return Testing(self, now)


def _require_function(function: Any) -> None:
    if isinstance(function, Task) or not callable(function) or not hasattr(function, "__name__"):
        raise BadInput("A task needs a function: put @app.task above a `def` or `async def`.")


def _is_same(known: Callable[..., Any], other: Callable[..., Any]) -> bool:
    """Report whether both are the same function.

    It may have been loaded twice, as `__main__` and by its name, or again after a change.
    """
    return known.__qualname__ == other.__qualname__ and known.__code__.co_filename == other.__code__.co_filename


def _split_batches(calls: Iterable[Call[R]]) -> Iterable[list[Call[R]]]:
    batch: list[Call[R]] = []
    for call in calls:
        batch.append(call)
        if len(batch) == BATCH_SIZE:
            yield batch
            batch = []
    if batch:
        yield batch


def _enqueue_batch(
    service: Service, batch: Sequence[Call[Any]], durability: Durability | None
) -> BatchOperation[Enqueued]:
    return service.enqueue([call.prepare() for call in batch], durability=_strongest_durability(batch, durability))


def _strongest_durability(calls: Sequence[Call[Any]], durability: Durability | None) -> Durability | None:
    """Return the strongest level that any of the calls asks for."""
    asked = {call.durability for call in calls} | {durability}
    return next((level for level in ("replica", "fsync", "memory") if level in asked), None)
