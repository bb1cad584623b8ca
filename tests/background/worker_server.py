"""Push worker on a real socket. It answers as the test wants and records the messages."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
from aiohttp import web

from windlass.core.operations import WorkerInfo
from windlass.service import Service

Answer = Callable[[dict[str, Any]], Awaitable[int]]
LONG_MS = 2**40


class WorkerServer:
    """Push worker. `answer` is a status, or a coroutine function from a message to a status."""

    def __init__(self, answer: int | Answer = 202, *, worker: bytes = b"w" * 16, slots: int = 10) -> None:
        self.answer = answer
        self.worker = worker
        self.slots = slots
        self.got: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.jobs: list[str] = []
        self.url = ""

    async def _serve(self, request: web.Request) -> web.Response:
        message = msgspec.msgpack.decode(await request.read())
        message["headers"] = {name.lower(): value for name, value in request.headers.items()}
        message["path"] = request.path
        self.jobs.append(message["job_id"])
        self.got.put_nowait(message)
        status = self.answer if isinstance(self.answer, int) else await self.answer(message)
        return web.Response(status=status)

    @contextlib.asynccontextmanager
    async def open(self, port: int = 0) -> AsyncIterator[WorkerServer]:
        application = web.Application()
        application.router.add_post("/{tail:.*}", self._serve)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", port)
        await site.start()
        self.port = runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{self.port}"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def register(self, service: Service, queue: str = "q") -> None:
        info = WorkerInfo(name="w", slots=self.slots, queues=(queue,), url=self.url + "/base")
        await service.register(self.worker, info, beat_ms=LONG_MS)
