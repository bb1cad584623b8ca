"""The application: its tasks, its connection to a deployment, what it declares there. Running jobs is the worker's."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import logging
import os
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator, Sequence
from datetime import datetime
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    NamedTuple,
    ParamSpec,
    Protocol,
    Self,
    TypeAlias,
    TypeVar,
    Unpack,
    overload,
)

from .. import server
from ..core.errors import BadInput, Refusal
from ..core.ids import parse_id
from ..core.job import Durability
from ..core.requests import Enqueued
from ..service import Service
from ..settings import Settings, load
from ..store.store import Store
from .batch import AsyncBatchTask, BatchDecorator, SyncBatchTask, batch_of
from .context import Context
from .cron import Scheduling
from .declaring import Declared
from .depends import Factory, refuse_circle
from .durations import Duration, duration_ms
from .handle import JobHandle
from .middleware import M, Middleware, refuse_other_than_async
from .options import DEFAULT_QUEUE, TaskOptions
from .task import AsyncTask, Call, SyncTask, Task

if TYPE_CHECKING:
    from .testing import Testing

P = ParamSpec("P")
R = TypeVar("R")
AT_ONCE = 1_000  # jobs per call of a bulk enqueue
OVERRIDE = "WINDLASS_OVERRIDE"  # an app's own options, and what a command line has said instead

log = logging.getLogger("windlass.app")


class Anything:
    """For type checkers: what takes even this as its first argument takes anything, and does not mean the context.
    Calls of such a function are not checked."""


class Decorator(Protocol):
    """What `app.task(...)` returns. A context that comes first is not part of the calls."""

    # A coroutine function is a function, too: the first overload that fits is meant.
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[Concatenate[Anything, P], Coroutine[Any, Any, R]], /
    ) -> AsyncTask[..., R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Anything, P], R], /) -> SyncTask[..., R]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R], /) -> SyncTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> SyncTask[P, R]: ...


class InLoop(NamedTuple):
    """What one event loop uses. The generator closes it when it is closed itself, at the latest with the loop."""

    service: Service
    keeping: AsyncGenerator[Service, None]


InLoops: TypeAlias = weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, InLoop]
OnEnqueued: TypeAlias = Callable[[Sequence[Call[Any]], Sequence[JobHandle[Any]]], None]


class Windlass(Scheduling):
    """One application. Connects with its first use: to `url`, WINDLASS_URL, or the embedded engine."""

    def __init__(
        self,
        url: str | None = None,
        *,
        data_dir: str | None = None,
        namespace: str | None = None,
        durability: Durability | None = None,
        patience: Duration | None = None,
    ) -> None:
        self._options = {
            "url": url,
            "data_dir": data_dir,
            "namespace": namespace,
            "durability": durability,
            "patience": None if patience is None else f"{duration_ms('patience', patience)}ms",
        }
        self.tasks: dict[str, Task[..., Any]] = {}
        self.middlewares: list[Middleware] = []
        self.overrides: dict[Any, Factory] = {}
        self.trace_source: Callable[[Call[Any]], str] | None = None  # gives new jobs their W3C traceparent
        self.declared = Declared()
        self._connecting = threading.Lock()
        self._store: Store | None = None
        self._service: Service | None = None
        self._is_borrowed = False
        self._in_loops: InLoops = weakref.WeakKeyDictionary()
        self._aside: tuple[Store | None, Service | None, bool, InLoops] | None = None  # during a test
        self._on_enqueued: OnEnqueued | None = None

    # Tasks

    @overload
    def task(  # type: ignore[overload-overlap]
        self, function: Callable[Concatenate[Anything, P], Coroutine[Any, Any, R]], /
    ) -> AsyncTask[..., R]: ...
    @overload
    def task(self, function: Callable[Concatenate[Anything, P], R], /) -> SyncTask[..., R]: ...
    @overload
    def task(  # type: ignore[overload-overlap]
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...
    @overload
    def task(  # type: ignore[overload-overlap]
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...
    @overload
    def task(self, function: Callable[Concatenate[Context, P], R], /) -> SyncTask[P, R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> SyncTask[P, R]: ...
    @overload
    def task(self, /, **options: Unpack[TaskOptions]) -> Decorator: ...
    def task(self, function: Any = None, /, **options: Any) -> Any:
        """Makes a task of a function: `@app.task`, or `@app.task(queue="mail", …)`."""
        if function is None:
            return lambda given: self._register(given, options)
        return self._register(function, options)

    def batch_task(self, *, most: int, wait: Duration = "50ms", **options: Unpack[TaskOptions]) -> BatchDecorator:
        """Makes a task of a function that is called for many jobs at once: `async def index(pages: list[Page])`."""
        batch = batch_of(most, wait)

        def declare(function: Any) -> Any:
            _refuse_other_than_functions(function)
            kind = AsyncBatchTask if inspect.iscoroutinefunction(function) else SyncBatchTask
            return self._add(kind(self, function, batch, options))

        return declare

    def _register(self, function: Callable[..., Any], options: dict[str, Any]) -> Task[..., Any]:
        _refuse_other_than_functions(function)
        kind = AsyncTask if inspect.iscoroutinefunction(function) else SyncTask
        return self._add(kind(self, function, options))

    def _add(self, made: Task[..., Any]) -> Task[..., Any]:
        known, function = self.tasks.get(made.name), made.function
        if known is not None and not _is_same(known.function, function):
            raise BadInput(
                f"There is a task {made.name!r} already ({known.function.__module__}): give one of them another name=."
            )
        self.tasks[made.name] = made
        self.declared.limits_of(made)
        return made

    def queues(self) -> tuple[str, ...]:
        """Those that a worker serves unless it is told others."""
        return tuple(sorted({task.queue for task in self.tasks.values()})) or (DEFAULT_QUEUE,)

    def middleware(self, function: M) -> M:
        """Registers a hook that is called around each job: `async def timed(ctx, call_next): …`."""
        refuse_other_than_async(function)
        self.middlewares.append(function)
        return function

    @contextlib.contextmanager
    def override(self, factory: Callable[..., Any], replacement: Callable[..., Any]) -> Iterator[None]:
        """While the block runs, what depends on `factory` gets what `replacement` makes; for tests."""
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
        """Many calls in few steps. A call that is refused raises, after those of its step that were accepted."""
        handles: list[JobHandle[R]] = []
        for part in _parts(calls):
            level, jobs = _level(part, durability), [call.new_job() for call in part]
            handles += self._handles(part, self.service.enqueue(jobs, durability=level).wait())
        return handles

    async def aenqueue_many(
        self, calls: Iterable[Call[R]], *, durability: Durability | None = None
    ) -> list[JobHandle[R]]:
        service = await self.aservice()
        handles: list[JobHandle[R]] = []
        for part in _parts(calls):
            level, jobs = _level(part, durability), [call.new_job() for call in part]
            handles += self._handles(part, await service.enqueue(jobs, durability=level))
        return handles

    def _handles(self, calls: Sequence[Call[R]], answers: Sequence[Enqueued | Refusal]) -> list[JobHandle[R]]:
        for answer in answers:
            if isinstance(answer, Refusal):
                raise answer
        handles: list[JobHandle[R]] = [
            JobHandle(
                self,
                answer.id,
                status=answer.status,
                result_type=call.task.result_type,
                is_kept=bool(call.terms.fields.get("result_ttl_ms")),
            )
            for call, answer in zip(calls, answers, strict=True)
            if isinstance(answer, Enqueued)
        ]
        self.was_enqueued(calls, handles)
        return handles

    def was_enqueued(self, calls: Sequence[Call[Any]], handles: Sequence[JobHandle[Any]]) -> None:
        """For tests that look at what was enqueued."""
        if self._on_enqueued is not None:
            self._on_enqueued(calls, handles)

    def job(self, job_id: str) -> JobHandle[Any]:
        """The handle of a job by its id."""
        return JobHandle(self, parse_id(job_id))

    def child_handler(self) -> Callable[[bytes], bytes]:
        """What a child process of a worker does with a job."""
        from .worker.process_job import handler

        return handler(self)

    # The connection

    def redirect(self, *, url: str | None = None, data_dir: str | None = None, namespace: str | None = None) -> None:
        """What a command line says wins over the code, here and in child processes that load the same app."""
        if data_dir is not None and url is None:
            url = ""  # the embedded engine is meant
        given = {"url": url, "data_dir": data_dir, "namespace": namespace}
        given = {name: value for name, value in given.items() if value is not None}
        if given:
            os.environ[OVERRIDE] = json.dumps([self._options, given])

    @property
    def settings(self) -> Settings:
        own, given = json.loads(os.environ.get(OVERRIDE, "[0, 0]"))
        return load({**self._options, **given} if own == self._options else self._options)[0]

    @property
    def store(self) -> Store:
        with self._connecting:
            if self._store is None:
                self._store = server.build_store(self.settings)
            return self._store

    def connect(self, store: Store) -> None:
        """Uses a store that exists, instead of one of its own; whoever made it closes it."""
        self._store, self._service, self._is_borrowed = store, None, True
        self._in_loops.clear()

    # Tests: for a while there is another connection

    @property
    def is_under_test(self) -> bool:
        return self._aside is not None

    def begin_test(self, store: Store, on_enqueued: OnEnqueued) -> None:
        with self._connecting:
            if self._aside is not None:
                raise BadInput("This app is under test already: one `with app.testing()` block at a time.")
            self._aside = self._store, self._service, self._is_borrowed, self._in_loops
        self._in_loops = weakref.WeakKeyDictionary()
        self.connect(store)
        self._on_enqueued = on_enqueued

    def end_test(self) -> None:
        """What event loops still use of the test's connection is closed by them, since nobody holds it any more."""
        self._in_loops.clear()
        aside, self._aside, self._on_enqueued = self._aside, None, None
        if aside is not None:
            self._store, self._service, self._is_borrowed, self._in_loops = aside

    @property
    def service(self) -> Service:
        """Every operation of the engine; answered by `.wait()` in any thread."""
        if self._service is None:
            self._service = Service(self.store)
        return self._service

    async def aservice(self) -> Service:
        """The same for the running event loop: its answers are awaited."""
        loop = asyncio.get_running_loop()
        found = self._in_loops.get(loop)
        if found is None:
            await asyncio.to_thread(self.store.open_now)
            found = self._in_loops.get(loop) or await self._join_loop(loop)
        return found.service

    async def _join_loop(self, loop: asyncio.AbstractEventLoop) -> InLoop:
        keeping = _kept(self.store.twin(), self._in_loops)
        self._in_loops[loop] = found = InLoop(await anext(keeping), keeping)
        return found

    def close(self) -> None:
        """Closes the connection that calls without an event loop use; the next use connects anew."""
        if self._is_borrowed:
            return
        with self._connecting:
            store, self._store, self._service = self._store, None, None
        if store is not None:
            store.close_now()

    async def aclose(self) -> None:
        """Closes what this event loop uses, and the rest."""
        found = self._in_loops.pop(asyncio.get_running_loop(), None)
        if found is not None:
            await found.keeping.aclose()
        await asyncio.to_thread(self.close)

    def testing(self, *, now: datetime | None = None) -> Testing:
        """For tests: `with app.testing() as t:` or `async with`. Until its end the app uses a private engine, whose
        clock `t` moves; it begins with `now`, if given."""
        from .testing import Testing

        return Testing(self, now)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        await self.aservice()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


async def _kept(store: Store, among: InLoops) -> AsyncGenerator[Service, None]:
    """An event loop that ends closes its generators first: nobody needs to think of it."""
    try:
        yield Service(store)
    finally:
        among.pop(asyncio.get_running_loop(), None)
        await store.close()


def _refuse_other_than_functions(function: Any) -> None:
    if isinstance(function, Task) or not callable(function) or not hasattr(function, "__name__"):
        raise BadInput("A task is made of a function.")


def _is_same(one: Callable[..., Any], other: Callable[..., Any]) -> bool:
    """The same function, maybe loaded again: as `__main__` and by its name, or after a change."""
    return one.__qualname__ == other.__qualname__ and one.__code__.co_filename == other.__code__.co_filename


def _parts(calls: Iterable[Call[R]]) -> Iterable[list[Call[R]]]:
    part: list[Call[R]] = []
    for call in calls:
        part.append(call)
        if len(part) == AT_ONCE:
            yield part
            part = []
    if part:
        yield part


def _level(calls: Sequence[Call[Any]], durability: Durability | None) -> Durability | None:
    """The strongest that one of the calls asks for."""
    asked = {call.durability for call in calls} | {durability}
    return next((level for level in ("replica", "fsync", "memory") if level in asked), None)
