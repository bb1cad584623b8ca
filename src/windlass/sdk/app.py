"""The application: its tasks, its connection to a deployment, what it declares there. Running jobs is the worker's."""

from __future__ import annotations

import asyncio
import logging
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterable, Sequence
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar, Unpack, overload

from .. import server
from ..core.errors import BadInput, Refusal
from ..core.ids import parse_id
from ..core.job import Durability
from ..core.requests import Enqueued
from ..service import Service
from ..settings import Settings, load
from ..store.store import Store
from .context import Context
from .declaring import Declared
from .durations import Duration, duration_ms
from .handle import JobHandle
from .middleware import Middleware
from .options import DEFAULT_QUEUE, TaskOptions
from .task import AsyncTask, Call, SyncTask, Task

P = ParamSpec("P")
R = TypeVar("R")
AT_ONCE = 1_000  # jobs per call of a bulk enqueue

log = logging.getLogger("windlass.app")


class Decorator(Protocol):
    """What `app.task(...)` returns. A context that comes first is not part of the calls."""

    # A coroutine function is a function, too: the first overload that fits is meant.
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


class Windlass:
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
        self.trace_source: Callable[[Call[Any]], str] | None = None  # gives new jobs their W3C traceparent
        self.declared = Declared()
        self._connecting = threading.Lock()
        self._store: Store | None = None
        self._service: Service | None = None
        self._is_borrowed = False
        self._in_loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Service] = weakref.WeakKeyDictionary()

    # Tasks

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

    def _register(self, function: Callable[..., Any], options: dict[str, Any]) -> Task[..., Any]:
        if isinstance(function, Task) or not callable(function) or not hasattr(function, "__name__"):
            raise BadInput("A task is made of a function.")
        made: Task[..., Any] = SyncTask(self, function, options)
        if made.is_async:
            made = AsyncTask(self, function, options)
        known = self.tasks.get(made.name)
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

    def middleware(self, function: Middleware) -> Middleware:
        """Registers a hook that is called around each job: `async def timed(ctx, call_next): …`."""
        self.middlewares.append(function)
        return function

    # Jobs

    def enqueue_many(
        self, calls: Iterable[Call[R]], *, durability: Durability | None = None, parent: bytes = b""
    ) -> list[JobHandle[R]]:
        """Many calls in few steps. A call that is refused raises, after those of its step that were accepted."""
        handles: list[JobHandle[R]] = []
        for part in _parts(calls):
            level, jobs = _level(part, durability), [call.new_job(**_of(parent)) for call in part]
            handles += self._handles(part, self.service.enqueue(jobs, durability=level).wait())
        return handles

    async def aenqueue_many(
        self, calls: Iterable[Call[R]], *, durability: Durability | None = None, parent: bytes = b""
    ) -> list[JobHandle[R]]:
        service = await self.aservice()
        handles: list[JobHandle[R]] = []
        for part in _parts(calls):
            level, jobs = _level(part, durability), [call.new_job(**_of(parent)) for call in part]
            handles += self._handles(part, await service.enqueue(jobs, durability=level))
        return handles

    def _handles(self, calls: Sequence[Call[R]], answers: Sequence[Enqueued | Refusal]) -> list[JobHandle[R]]:
        for answer in answers:
            if isinstance(answer, Refusal):
                raise answer
        return [
            JobHandle(
                self,
                answer.id,
                status=answer.status,
                result_type=call.task.result_type,
                is_kept=bool(call.task.template.fields.get("result_ttl_ms")),
            )
            for call, answer in zip(calls, answers, strict=True)
            if isinstance(answer, Enqueued)
        ]

    def job(self, job_id: str) -> JobHandle[Any]:
        """The handle of a job by its id."""
        return JobHandle(self, parse_id(job_id))

    def child_handler(self) -> Callable[[bytes], bytes]:
        """What a child process of a worker does with a job."""
        from .worker.process_job import handler

        return handler(self)

    # The connection

    @property
    def settings(self) -> Settings:
        return load(self._options)[0]

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
            found = self._in_loops.setdefault(loop, Service(self.store.twin()))
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
        service = self._in_loops.pop(asyncio.get_running_loop(), None)
        if service is not None:
            await service.store.close()
        await asyncio.to_thread(self.close)

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


def _of(parent: bytes) -> dict[str, Any]:
    return {"parent": parent} if parent else {}
