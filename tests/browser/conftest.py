"""A browser for each test process that runs tests of this folder, and servers for it to visit. Everything runs in one
event loop that lives as long as the folder's tests do: the browser does, too."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import NamedTuple

import pytest
from playwright.async_api import Browser

from tests.browser.browsing import Visitor, browsing, visiting
from tests.browser.present import populated
from tests.browser.sentences import hostilely
from tests.support.engine_process import EngineProcess
from tests.support.former_names import former_names
from tests.support.stores import make_store
from windlass.server import Server, open_server
from windlass.service import Service
from windlass.settings import Settings
from windlass.store.store import Store

SETTINGS = Settings(port=0, bedrock_port=None, roles="api,notifier")  # nothing is downloaded


@pytest.fixture(scope="package")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session", params=["valkey"])
def engine(request: pytest.FixtureRequest) -> Iterator[EngineProcess]:
    """One engine is enough: what differs between them is tested where the engine is."""
    with EngineProcess(request.param, config=("--save", "", "--appendonly", "no")) as process:
        yield process


@pytest.fixture(scope="package")
async def browser(anyio_backend: str) -> AsyncIterator[Browser]:
    async with browsing() as browser:
        yield browser


class Ground(NamedTuple):
    """A deployment in the middle of its day, and a server for it."""

    url: str
    service: Service
    ids: dict[str, str]  # of its jobs, see present.py


@pytest.fixture(scope="package")
async def ground(browser: Browser, engine: EngineProcess) -> AsyncIterator[Ground]:
    """Full of hostile texts. Shared: tests look at it and change nothing."""
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(make_store(engine))
        with former_names():
            ids = await stack.enter_async_context(populated(store, hostilely, range(60, 0, -5)))
        running = await stack.enter_async_context(open_server(store.clone(), SETTINGS))
        yield Ground(running.url, Service(store), ids)


@pytest.fixture
async def reader(browser: Browser, ground: Ground) -> AsyncIterator[Visitor]:
    """Of the deployment in the middle of its day."""
    async with visiting(browser, ground.url) as visitor:
        yield visitor


# Servers of a test's own


@pytest.fixture
def server_settings() -> Settings:
    """For tests to override."""
    return SETTINGS


@pytest.fixture
async def running(store: Store, server_settings: Settings) -> AsyncIterator[Server]:
    async with open_server(store, server_settings) as running:
        yield running


@pytest.fixture
async def visitor(browser: Browser, running: Server) -> AsyncIterator[Visitor]:
    """Of a server with nothing in it."""
    async with visiting(browser, running.url) as visitor:
        yield visitor
