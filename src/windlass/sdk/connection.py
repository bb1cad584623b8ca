"""An application's connection to its deployment: one store for calls without an event loop, a twin of it for each event
loop. While the application is under test there is another one. What a store is: reaching.py."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias

from windlass.core.errors import BadInput
from windlass.core.job import Durability
from windlass.service import Service
from windlass.service.batcher import Gathering
from windlass.settings import Settings, load
from windlass.store.store import Store

from .deployment import AnyStore, make_service, make_store, require_engine_store
from .durations import Duration, duration_ms

if TYPE_CHECKING:
    from .handle import JobHandle
    from .tasks.task import Call

OVERRIDE = "WINDLASS_OVERRIDE"  # an app's own options, and what a command line has said instead


class LoopConnection(NamedTuple):
    """What one event loop uses. The generator closes it when it is closed itself, at the latest with the loop."""

    service: Service
    gathering: Gathering  # calls that come one by one
    keeping: AsyncGenerator[Service, None]


LoopConnections: TypeAlias = weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, LoopConnection]
OnEnqueued: TypeAlias = "Callable[[Sequence[Call[Any]], Sequence[JobHandle[Any]]], None]"


class AppConnection:
    """Connects with the first use."""

    def __init__(
        self,
        *,
        url: str | None,
        data_dir: str | None,
        namespace: str | None,
        durability: Durability | None,
        patience: Duration | None,
        token: str | None,
    ) -> None:
        self._options = {
            "url": url,
            "data_dir": data_dir,
            "namespace": namespace,
            "durability": durability,
            "patience": None if patience is None else f"{duration_ms('patience', patience)}ms",
            "token": token,
        }
        self._connecting = threading.Lock()
        self._store: AnyStore | None = None
        self._service: Service | None = None
        self._is_borrowed = False
        self._in_loops: LoopConnections = weakref.WeakKeyDictionary()
        self._aside: tuple[AnyStore | None, Service | None, bool, LoopConnections] | None = None  # during a test
        self._on_enqueued: OnEnqueued | None = None

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
    def reached(self) -> AnyStore:
        """The engine's store, or what stands in its place."""
        with self._connecting:
            if self._store is None:
                self._store = make_store(self.settings)
            return self._store

    @property
    def store(self) -> Store:
        return require_engine_store(self.reached)

    def new_id(self, queue: str) -> bytes:
        """Make an id for a job. It carries the partition of the queue, so the engine must have been asked for those."""
        self.reached.open_now()
        return self.reached.new_id(queue)

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

    def was_enqueued(self, calls: Sequence[Call[Any]], handles: Sequence[JobHandle[Any]]) -> None:
        """For tests that look at what was enqueued."""
        if self._on_enqueued is not None:
            self._on_enqueued(calls, handles)

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
            self._service = make_service(self.reached)
        return self._service

    async def aservice(self) -> Service:
        """The same for the running event loop: its answers are awaited."""
        return (await self.in_loop()).service

    async def in_loop(self) -> LoopConnection:
        loop = asyncio.get_running_loop()
        found = self._in_loops.get(loop)
        if found is None:
            await asyncio.to_thread(self.reached.open_now)
            found = self._in_loops.get(loop) or await self._join_loop(loop)
        return found

    async def _join_loop(self, loop: asyncio.AbstractEventLoop) -> LoopConnection:
        keeping = _close_with_loop(self.reached.twin(), self._in_loops)
        service = await anext(keeping)
        self._in_loops[loop] = found = LoopConnection(service, Gathering(service), keeping)
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


async def _close_with_loop(store: AnyStore, among: LoopConnections) -> AsyncGenerator[Service, None]:
    """An event loop that ends closes its generators first: nobody needs to think of it."""
    try:
        yield make_service(store)
    finally:
        among.pop(asyncio.get_running_loop(), None)
        await store.close()
