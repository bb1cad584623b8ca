"""A real uvicorn in the event loop of the test, with a host program around the mounted application."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

MOUNT = "/ops/jobs"


class Host:
    """Running server of a host program, and a client for it."""

    def __init__(self, server: uvicorn.Server, url: str, client: httpx.AsyncClient) -> None:
        self.url = url
        self.client = client
        self._server = server

    def stop(self) -> None:
        """Do what SIGTERM does."""
        self._server.should_exit = True


@contextlib.asynccontextmanager
async def hosted(program: Any, **options: Any) -> AsyncIterator[Host]:
    """Serve a program on a free port until the block ends."""
    server = uvicorn.Server(uvicorn.Config(program, log_level="warning", **options))
    # With the protocol: otherwise asyncio does not set TCP_NODELAY, and each answer waits 40 ms for an acknowledgement.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        serving = asyncio.create_task(server.serve([listener]))
        try:
            async with httpx.AsyncClient(base_url=url, timeout=30) as client:
                yield Host(server, url, client)
        finally:
            server.should_exit = True
            await serving


def mounted(application: Any) -> Starlette:
    """Return a host program with the application below MOUNT."""
    return Starlette(routes=[Mount(MOUNT, application)])


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}
