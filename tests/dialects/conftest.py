"""A real server on a real socket, and its clients.

`api` runs a test in both encodings. `service` uses the same engine and namespace. `store.clock_offset_ms` moves the
clock of all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.dialects.bedrock.command_router import BedrockCommands
from tests.dialects.http_requests import NativeApi
from tests.dialects.lightjq.lightjq_client import LightJqClient
from tests.support.api_client import Api
from windlass.server import Server, open_server
from windlass.service import Service
from windlass.settings import Settings
from windlass.store.store import Store


@pytest.fixture
def server_settings() -> Settings:
    """For tests to override."""
    return Settings(port=0, bedrock_port=0, roles="api")


@pytest.fixture
async def running(store: Store, server_settings: Settings) -> AsyncIterator[Server]:
    async with open_server(store, server_settings) as running:
        yield running


@pytest.fixture
def server_url(running: Server) -> str:
    return running.url


@pytest.fixture
async def client(server_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=server_url, timeout=30) as client:
        yield client


@pytest.fixture(params=["json", "msgpack"])
def api(client: httpx.AsyncClient, request: pytest.FixtureRequest) -> Api:
    return Api(client, request.param)


@pytest.fixture
def json_api(client: httpx.AsyncClient) -> Api:
    """Client for tests in which the encoding does not matter."""
    return Api(client, "json")


@pytest.fixture
def lightjq(client: httpx.AsyncClient) -> LightJqClient:
    return LightJqClient(client)


@pytest.fixture
def native_api(api: Api) -> NativeApi:
    return NativeApi(api)


@pytest.fixture
async def bedrock(service: Service) -> AsyncIterator[BedrockCommands]:
    """Bedrock commands without a socket."""
    async with service.store:
        bedrock = BedrockCommands(service)
        yield bedrock
        await bedrock.router.close()
