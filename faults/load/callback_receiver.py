"""An HTTP server that records every callback. It refuses some of them, and drops the connection of others."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from aiohttp import web

from ..history import JobFacts
from .context import ClientContext

REFUSED, DROPPED = 0.2, 0.1  # shares of all callbacks


@contextlib.asynccontextmanager
async def callback_receiver(context: ClientContext, *, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
    """Run the receiver and yield its URL."""

    async def receive(request: web.Request) -> web.Response:
        body = await request.read()
        pending = context.recorder.begin("callback", [_facts(body, request.headers.get("Windlass-Callback-Id", ""))])
        chance = context.random.random()
        if chance < DROPPED:
            pending.record_refusal("hung_up")
            if request.transport is not None:
                request.transport.abort()
        elif chance < DROPPED + REFUSED:
            pending.record_refusal("500")
            return web.Response(status=500)
        else:
            pending.record_ok()
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


def _facts(body: bytes, delivery: str) -> JobFacts:
    """Return the facts of a callback. The `extra` of a download is its key; other jobs are known by their id."""
    digest = hashlib.blake2b(body, digest_size=16).hexdigest()
    try:
        content: Any = msgspec.json.decode(body)
        if "job" in content:
            job, payload = content["job"], content["job"].get("payload")
            key = str(payload.get("key", "")) if isinstance(payload, dict) else ""
            return JobFacts(id=job["id"], key=key, outcome=content["event"], delivery=delivery, digest=digest)
        return JobFacts(key=str(content["extra"]), outcome="finished", delivery=delivery, digest=digest)
    except (msgspec.DecodeError, KeyError, TypeError):
        return JobFacts(delivery=delivery, digest=digest, outcome="unreadable")
