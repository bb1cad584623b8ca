"""A deployment that speaks all dialects: a real server, a processor on pipes, an SDK application, and an origin of
files."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx

from tests.dialects.bedrock.client import SocketClient, connect
from tests.dialects.lightjq.lightjq_client import LightJqClient
from tests.dialects.stdio.processor_client import SessionClient, running_session
from tests.downloads.origin import Origin, ReceivedRequest
from tests.support.api_client import Api
from windlass import Windlass
from windlass.server import open_server
from windlass.service import Service
from windlass.settings import Settings
from windlass.store.store import Store

LIMIT_S = 60.0


class HeldRequest:
    """A request for a file that waits for its answer."""

    def __init__(self) -> None:
        self.status: asyncio.Future[str] = asyncio.get_running_loop().create_future()


class Deployment:
    def __init__(self, store: Store, client: httpx.AsyncClient, directory: Path) -> None:
        self.store = store
        self.service = Service(store)
        self.client = client
        self.api = Api(client, "json")
        self.lightjq = LightJqClient(client)
        self.directory = directory
        self.app = Windlass()
        self.bedrock: SocketClient
        self.processor: SessionClient
        self.origin = Origin(self._serve_file)
        self.requests: asyncio.Queue[HeldRequest] = asyncio.Queue()

    async def _serve_file(self, _: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
        held = HeldRequest()
        self.requests.put_nowait(held)
        status = await held.status
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 5\r\n\r\nhello".encode())
        await writer.drain()

    @property
    def order(self) -> dict[str, Any]:
        """Payload of every job: an order for the downloader, and a value that other workers check."""
        return {"url": self.origin.url(), "aggr_id": "shop", "extra": "seven"}


@contextlib.asynccontextmanager
async def open_deployment(store: Store, directory: Path) -> AsyncIterator[Deployment]:
    settings = Settings(port=0, bedrock_port=0, roles="api")
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(open_server(store, settings))
        client = await stack.enter_async_context(httpx.AsyncClient(base_url=server.url, timeout=LIMIT_S))
        deployment = Deployment(store, client, directory)
        deployment.bedrock = await stack.enter_async_context(connect(server.bedrock))
        twin = await stack.enter_async_context(store.clone())
        deployment.processor = await stack.enter_async_context(running_session(Service(twin)))
        await stack.enter_async_context(deployment.origin.open())
        deployment.app.connect(await stack.enter_async_context(store.clone()))
        stack.push_async_callback(deployment.app.aclose)
        yield deployment


async def until(read: Callable[[], Awaitable[bool]]) -> None:
    """Wait until it is so."""
    async with asyncio.timeout(LIMIT_S):
        while not await read():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
