"""Bedrock listener on a real socket, with a command router whose behaviour the test chooses."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from msgspec import structs

from windlass.dialects.bedrock.client import BedrockClient
from windlass.dialects.bedrock.connections.listener import BOUNDS, BedrockListener
from windlass.dialects.bedrock.wire import BedrockRequest, Reply
from windlass.service import Service
from windlass.web.app.auth import Authenticator
from windlass.web.app.token_table import TokenTable
from windlass.web.listener.deferred import DeferredAnswer

JOB = (b"a job's id", 7)


class FakeRouter:
    """Command router that acts by the name in the request. Commands named `wait` wait for `gate`."""

    def __init__(self) -> None:
        self.fast_reply: asyncio.Future[bytes] | None = None  # of the last command on the fast path
        self.gate = asyncio.Event()
        self.entered = asyncio.Event()
        self.cancelled = 0
        self.answered: list[str] = []
        self.undelivered: list[Reply] = []
        self.released: list[tuple[tuple[bytes, int], ...]] = []
        self.changed = asyncio.Event()

    def start(self, request: BedrockRequest, client: BedrockClient) -> DeferredAnswer[bytes, Reply] | Reply | None:
        """Take the fast path for names with `brief`."""
        name = request.headers.get("name", "")
        if "brief" not in name:
            return None
        if "fail" in name:
            raise ZeroDivisionError
        if "refused" in name:
            return Reply(402, "Malformed name")
        self.fast_reply = asyncio.get_running_loop().create_future()
        self.entered.set()
        return DeferredAnswer(self.fast_reply, lambda done: Reply(200, "OK", done.result()))

    async def answer(self, request: BedrockRequest, client: BedrockClient) -> Reply:
        name = request.headers.get("name", "")
        self.entered.set()
        try:
            if "wait" in name:
                await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.answered.append(name)
            self._change()
        if "fail" in name:
            raise ZeroDivisionError
        if "large" in name:
            return Reply(200, "OK", b"x" * 8_000_000)
        jobs = (JOB,) if "job" in name else ()
        settled = (JOB[0],) if request.verb == "FinishJob" else ()
        return Reply(200, "OK", f"{name} for {client.principal.name}".encode(), jobs=jobs, settled=settled)

    async def return_undelivered(self, request: BedrockRequest, reply: Reply) -> None:
        self.undelivered.append(reply)
        self._change()

    async def release_jobs(self, jobs: tuple[tuple[bytes, int], ...]) -> None:
        self.released.append(jobs)
        self._change()

    def stop(self) -> None:
        """Do nothing: there are no queries."""

    async def close(self) -> None:
        """Do nothing: there are no processes."""

    def _change(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    async def until(self, is_so: Callable[[], object]) -> None:
        async with asyncio.timeout(20):
            while not is_so():
                await self.changed.wait()


async def until(is_so: Callable[[], bool]) -> None:
    """Poll a condition that has no event."""
    async with asyncio.timeout(20):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


class ListenerSetup:
    def __init__(self, router: FakeRouter, listener: BedrockListener) -> None:
        self.router = router
        self.listener = listener
        self.address = listener.host


@contextlib.asynccontextmanager
async def running_listener(
    service: Service, clock: Callable[[], float] = time.monotonic, **bounds: Any
) -> AsyncIterator[ListenerSetup]:
    """Run a listener. With a fixed clock the table of tokens never expires."""
    table = TokenTable(service, clock=clock)
    router = FakeRouter()
    try:
        await table.refresh()
        authenticator = Authenticator(table, is_open=True, is_local=True)
        listener = BedrockListener(router, authenticator, structs.replace(BOUNDS, **bounds))
        await listener.start("127.0.0.1", 0)
        try:
            yield ListenerSetup(router, listener)
        finally:
            router.gate.set()
            await listener.stop(grace_s=5)
            assert listener.open == listener.handlers_running == listener.buffered_bytes == len(listener.deferred) == 0
    finally:
        await table.close()
        await service.store.close()
