"""Connection of an application to its deployment.

An application has one store for calls without an event loop and one twin of it per event loop. A test replaces the
connection for its duration. `deployment.py` makes the stores.
"""

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
from windlass.service.batcher import RequestBatcher
from windlass.settings import Settings, load
from windlass.store.store import Store

from .deployment import AnyStore, make_service, make_store, require_engine_store
from .durations import Duration, duration_ms
from .streams.loop_thread import LoopThread

if TYPE_CHECKING:
    from .handle import JobHandle
    from .tasks.task import Call

OVERRIDE = "WINDLASS_OVERRIDE"  # environment variable: an app's own options, and the command line's replacements


class LoopConnection(NamedTuple):
    """Connection of one event loop. Closing the generator closes it; the loop does so at its end at the latest."""

    service: Service
    batcher: RequestBatcher  # joins single calls into batches
    closer: AsyncGenerator[Service, None]


LoopConnections: TypeAlias = weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, LoopConnection]
OnEnqueued: TypeAlias = "Callable[[Sequence[Call[Any]], Sequence[JobHandle[Any]]], None]"


class AppConnection:
    """Connection that is opened on first use."""

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
        self._loop_connections: LoopConnections = weakref.WeakKeyDictionary()
        self._saved: tuple[AnyStore | None, Service | None, bool, LoopConnections] | None = None  # during a test
        self._on_enqueued: OnEnqueued | None = None
        self.loop_thread = LoopThread()  # for readers of streams without an event loop

    def redirect(self, *, url: str | None = None, data_dir: str | None = None, namespace: str | None = None) -> None:
        """Override the connection options of the code, as the command line asks.

        The override also holds in child processes that load the same app.
        """
        if data_dir is not None and url is None:
            url = ""  # a data directory belongs to the embedded engine
        overrides = {"url": url, "data_dir": data_dir, "namespace": namespace}
        overrides = {name: value for name, value in overrides.items() if value is not None}
        if overrides:
            os.environ[OVERRIDE] = json.dumps([self._options, overrides])

    @property
    def settings(self) -> Settings:
        own, overrides = json.loads(os.environ.get(OVERRIDE, "[0, 0]"))
        return load({**self._options, **overrides} if own == self._options else self._options)[0]

    @property
    def any_store(self) -> AnyStore:
        """Return the engine's store, or the remote store if a server is used."""
        with self._connecting:
            if self._store is None:
                self._store = make_store(self.settings)
            return self._store

    @property
    def store(self) -> Store:
        return require_engine_store(self.any_store)

    def new_id(self, queue: str) -> bytes:
        """Make an id for a job.

        The id contains the partition of the queue, so the engine must have reported its partitions first.
        """
        self.any_store.open_sync()
        return self.any_store.new_id(queue)

    def connect(self, store: Store) -> None:
        """Use an existing store. The caller closes it."""
        self._store, self._service, self._is_borrowed = store, None, True
        self._loop_connections.clear()

    # Tests replace the connection

    @property
    def is_under_test(self) -> bool:
        return self._saved is not None

    def begin_test(self, store: Store, on_enqueued: OnEnqueued) -> None:
        with self._connecting:
            if self._saved is not None:
                raise BadInput("This app is under test already: use one `with app.testing()` block at a time.")
            self._saved = self._store, self._service, self._is_borrowed, self._loop_connections
        self._loop_connections = weakref.WeakKeyDictionary()
        self.connect(store)
        self._on_enqueued = on_enqueued

    def notify_enqueued(self, calls: Sequence[Call[Any]], handles: Sequence[JobHandle[Any]]) -> None:
        """Call the hook of a test that records enqueued calls."""
        if self._on_enqueued is not None:
            self._on_enqueued(calls, handles)

    def end_test(self) -> None:
        """Restore the app's own connection.

        Connections that event loops made during the test are closed by their loops, because no reference to them is
        left.
        """
        self._loop_connections.clear()
        saved, self._saved, self._on_enqueued = self._saved, None, None
        if saved is not None:
            self._store, self._service, self._is_borrowed, self._loop_connections = saved

    @property
    def service(self) -> Service:
        """Return the service for calls without an event loop. Call `.wait()` on its operations in any thread."""
        if self._service is None:
            self._service = make_service(self.any_store)
        return self._service

    async def aservice(self) -> Service:
        """Return the service for the running event loop. Await its operations."""
        return (await self.loop_connection()).service

    async def loop_connection(self) -> LoopConnection:
        loop = asyncio.get_running_loop()
        found = self._loop_connections.get(loop)
        if found is None:
            await asyncio.to_thread(self.any_store.open_sync)
            found = self._loop_connections.get(loop) or await self._connect_loop(loop)
        return found

    async def _connect_loop(self, loop: asyncio.AbstractEventLoop) -> LoopConnection:
        closer = _close_with_loop(self.any_store.clone(), self._loop_connections)
        service = await anext(closer)
        self._loop_connections[loop] = found = LoopConnection(service, RequestBatcher(service), closer)
        return found

    def close(self) -> None:
        """Close the connection for calls without an event loop. The next use reconnects."""
        self.loop_thread.close()
        if self._is_borrowed:
            return
        with self._connecting:
            store, self._store, self._service = self._store, None, None
        if store is not None:
            store.close_sync()

    async def aclose(self) -> None:
        """Close the connection of this event loop and the connection for calls without an event loop."""
        found = self._loop_connections.pop(asyncio.get_running_loop(), None)
        if found is not None:
            await found.closer.aclose()
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


async def _close_with_loop(store: AnyStore, connections: LoopConnections) -> AsyncGenerator[Service, None]:
    """Yield a service and close its store at the end. An event loop closes its generators before it ends."""
    try:
        yield make_service(store)
    finally:
        connections.pop(asyncio.get_running_loop(), None)
        await store.close()
