"""Who is called back: an HTTP server that writes down every callback, and sometimes refuses one, or hangs up."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from aiohttp import web

from ..history import Seen
from .life import Life

REFUSED, HUNG_UP = 0.2, 0.1  # of all that arrive


@contextlib.asynccontextmanager
async def receiving(life: Life, *, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
    """Its URL, while it listens."""

    async def receive(request: web.Request) -> web.Response:
        body = await request.read()
        pending = life.recorder.begin("callback", [_seen(body, request.headers.get("Windlass-Callback-Id", ""))])
        chance = life.random.random()
        if chance < HUNG_UP:
            pending.refused("hung_up")
            if request.transport is not None:
                request.transport.abort()
        elif chance < HUNG_UP + REFUSED:
            pending.refused("500")
            return web.Response(status=500)
        else:
            pending.ok()
        return web.Response()

    application = web.Application()
    application.router.add_post("/{anything:.*}", receive)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, reuse_address=True)
        await site.start()
        number = port or runner.addresses[0][1]
        yield f"http://{host}:{number}/done"
    finally:
        await runner.cleanup()


def _seen(body: bytes, delivery: str) -> Seen:
    """A download is known by what its order carried, any other job by its id."""
    digest = hashlib.blake2b(body, digest_size=16).hexdigest()
    try:
        told: Any = msgspec.json.decode(body)
        if "job" in told:
            payload = told["job"].get("payload")
            key = str(payload.get("key", "")) if isinstance(payload, dict) else ""
            return Seen(id=told["job"]["id"], key=key, outcome=told["event"], delivery=delivery, digest=digest)
        return Seen(key=str(told["extra"]), outcome="finished", delivery=delivery, digest=digest)
    except (msgspec.DecodeError, KeyError, TypeError):
        return Seen(delivery=delivery, digest=digest, outcome="unreadable")
