"""A browser for each test process, and servers for it. Everything runs in one event loop that lasts for all tests of
this folder, because the browser does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import NamedTuple

import pytest
from playwright.async_api import Browser

from tests.browser.chromium import Visitor, launch_browser, open_visitor
from tests.browser.demo_deployment import populated
from tests.browser.sample_texts import hostile_text
from tests.support.engine_process import EngineProcess
from tests.support.legacy_names import allow_legacy_names
from tests.support.stores import make_store
from windlass.server import Server, open_server
from windlass.service import Service
from windlass.settings import Settings
from windlass.store.store import Store

SETTINGS = Settings(port=0, bedrock_port=None, roles="api,notifier")  # without downloads


@pytest.fixture(scope="package")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session", params=["valkey"])
def engine(request: pytest.FixtureRequest) -> Iterator[EngineProcess]:
    """Only Valkey: differences between engines are tested elsewhere."""
    with EngineProcess(request.param, config=("--save", "", "--appendonly", "no")) as process:
        yield process


@pytest.fixture(scope="package")
async def browser(anyio_backend: str) -> AsyncIterator[Browser]:
    async with launch_browser() as browser:
        yield browser


class Deployment(NamedTuple):
    """A deployment with jobs in every state, and its server."""

    url: str
    service: Service
    ids: dict[str, str]  # of its jobs, see demo_deployment.py


@pytest.fixture(scope="package")
async def deployment(browser: Browser, engine: EngineProcess) -> AsyncIterator[Deployment]:
    """Contains hostile texts. Shared by tests that only read it."""
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(make_store(engine))
        with allow_legacy_names():
            ids = await stack.enter_async_context(populated(store, hostile_text, range(60, 0, -5)))
        running = await stack.enter_async_context(open_server(store.clone(), SETTINGS))
        yield Deployment(running.url, Service(store), ids)


@pytest.fixture
async def reader(browser: Browser, deployment: Deployment) -> AsyncIterator[Visitor]:
    """Visitor of the shared deployment."""
    async with open_visitor(browser, deployment.url) as visitor:
        yield visitor


# Servers for one test


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
    """Visitor of an empty server."""
    async with open_visitor(browser, running.url) as visitor:
        yield visitor
