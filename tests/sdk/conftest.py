"""Applications on a real engine, and workers in the test's own event loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sdk.apps import fault_tasks
from tests.support.engine_process import EngineProcess
from tests.support.threaded_server import threaded_server
from tests.support.worker_process import JobNotes, WorkerStarter, worker_starter
from windlass import Windlass, Worker
from windlass.service import Service
from windlass.settings import Settings
from windlass.store.store import Store


@pytest.fixture(scope="session", params=["valkey"])
def engine(request: pytest.FixtureRequest) -> Iterator[EngineProcess]:
    """Use one engine only: differences between engines are tested in the store's tests."""
    with EngineProcess(request.param, config=("--save", "", "--appendonly", "no")) as process:
        yield process


@pytest.fixture
def app(store: Store, request: pytest.FixtureRequest) -> Iterator[Windlass]:
    """Make an app on the engine. With WINDLASS_TEST_OVER_HTTP set, it and its workers use a server."""
    if os.environ.get("WINDLASS_TEST_OVER_HTTP"):
        app = Windlass(request.getfixturevalue("served"))
    else:
        app = Windlass()
        app.connect(store)
    yield app
    app.close()


@contextlib.asynccontextmanager
async def at_work(app: Windlass, **options: Any) -> AsyncIterator[Worker]:
    """Run a worker of the app until the block ends."""
    worker = Worker(app, **{"concurrency": 8, "grace": 5, **options})
    running = asyncio.create_task(worker.run())
    try:
        await worker.wait_until_ready()
        yield worker
    finally:
        worker.stop()
        await running
        await app.aclose()


@pytest.fixture
def working() -> Callable[..., contextlib.AbstractAsyncContextManager[Worker]]:
    return at_work


# A server in front of the engine


@pytest.fixture
def served(store: Store) -> Iterator[str]:
    """Serve the store and return the server's URL."""
    store.open_sync()
    with threaded_server(
        store.clone(), Settings(port=0, bedrock_port=0, roles="api", access_log=True, callback_concurrency=0)
    ) as url:
        yield url


@pytest.fixture
async def engine_service(store: Store) -> AsyncIterator[Service]:
    """Return a service on the engine itself, for a look past the server."""
    store.open_sync()
    async with store.clone() as twin:
        yield Service(twin)


# Real worker processes of fault_tasks.py


@pytest.fixture
def place(tmp_path: Path) -> JobNotes:
    return JobNotes(tmp_path)


@pytest.fixture
def connected(store: Store) -> Service:
    fault_tasks.app.connect(store)
    return Service(store)


@pytest.fixture
def workers(engine: EngineProcess, store: Store, connected: Service) -> Iterator[WorkerStarter]:
    with worker_starter("fault_tasks:app", engine.unix_url, store.namespace, Path(__file__).parent / "apps") as found:
        yield found
