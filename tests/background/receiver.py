"""Receiver of callbacks on a real socket. It answers as the test wants and records the requests."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

import msgspec
from aiohttp import web


class Received(NamedTuple):
    path: str
    headers: dict[str, str]  # names in lower case
    body: bytes

    @property
    def decoded(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def id(self) -> str:
        return self.headers["windlass-callback-id"]


Answer = Callable[[Received], Awaitable[web.StreamResponse]]


class Receiver:
    """Receiver. `answer` is a status, or a coroutine function from a request to a response."""

    def __init__(self, answer: int | Answer = 200) -> None:
        self.answer = answer
        self.got: asyncio.Queue[Received] = asyncio.Queue()
        self.all: list[Received] = []
        self.under_way = self.most_under_way = 0
        self.url = ""

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        received = Received(request.path, headers, await request.read())
        self.all.append(received)
        self.got.put_nowait(received)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            return web.Response(status=self.answer) if isinstance(self.answer, int) else await self.answer(received)
        finally:
            self.under_way -= 1

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[Receiver]:
        application = web.Application()
        application.router.add_post("/{tail:.*}", self._serve)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
        try:
            yield self
        finally:
            await runner.cleanup()


@contextlib.asynccontextmanager
async def raw_receiver(answer: bytes) -> AsyncIterator[str]:
    """Yield the URL of a receiver that answers every request with these bytes and keeps the connection open."""
    held: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    finally:
        server.close()
        for writer in held:
            writer.close()
        await server.wait_closed()


@contextlib.asynccontextmanager
async def silent_receiver() -> AsyncIterator[str]:
    """Yield the URL of a receiver that accepts connections and never answers."""
    async with raw_receiver(b"") as url:
        yield url
