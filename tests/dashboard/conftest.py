"""A real server with its dashboard, and an HTTP client that reads its pages."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.dashboard.page_client import PageClient
from windlass.server import Server, open_server
from windlass.settings import Settings
from windlass.store.store import Store


@pytest.fixture
def server_settings() -> Settings:
    """For tests to override."""
    return Settings(port=0, bedrock_port=None, roles="api")


@pytest.fixture(autouse=True)
def _patient_pages(patient_pages: None) -> None:
    """Let all pages wait."""


@pytest.fixture
async def running(store: Store, server_settings: Settings) -> AsyncIterator[Server]:
    async with open_server(store, server_settings) as running:
        yield running


@pytest.fixture
async def page_client(running: Server) -> AsyncIterator[PageClient]:
    async with httpx.AsyncClient(base_url=running.url, timeout=30, headers={"accept": "text/html"}) as client:
        yield PageClient(client)
