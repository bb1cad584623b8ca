"""Who is at the other end of a connection, and what a connection asks of the desk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from windlass.core.access.tokens import Principal
from windlass.web.app.auth import ANONYMOUS, is_loopback

from .wire import BedrockRequest, Reply


class BedrockClient:
    __slots__ = ("is_gone", "is_local", "peer", "principal")

    def __init__(self, peer: str, who: Principal = ANONYMOUS) -> None:
        self.peer = peer  # address
        self.is_local = is_loopback(peer)
        self.is_gone = False  # true from the moment the connection is known to be lost
        self.principal = who  # of the command that is being answered


class PendingReply(msgspec.Struct, frozen=True):
    """A command that waits for one future and nothing else, so that it needs no task."""

    future: asyncio.Future[Any]
    reply: Callable[[asyncio.Future[Any]], Reply]  # of that future, once it is done


class CommandHandler(Protocol):
    """The desk as connections see it."""

    def start(self, request: BedrockRequest) -> PendingReply | Reply | None:
        """The short way of a command that has one; None: it is to be asked with `answer`."""

    async def answer(self, request: BedrockRequest, client: BedrockClient) -> Reply:
        """Of a command other than Ping and Status. A GetJob that waits is cancelled when its client goes or the server
        stops: what it holds then, it gives back itself."""

    async def return_undelivered(self, request: BedrockRequest, reply: Reply) -> None:
        """Nobody got this reply, and the jobs in it."""

    async def release_jobs(self, jobs: tuple[tuple[bytes, int], ...]) -> None:
        """The connection that they were bound to is gone. Those that were reported on meanwhile are left alone."""

    def stop(self) -> None:
        """The server stops: end the queries that are under way, and refuse further ones."""

    async def close(self) -> None:
        """Stop checking lost takes, and end the processes that queries ran in: no more commands come."""
