"""The client of a connection, and the interface between connections and the command router."""

from __future__ import annotations

from typing import Any, Protocol

from windlass.core.access.tokens import Principal
from windlass.web.app.auth import ANONYMOUS, is_loopback
from windlass.web.listener.deferred import DeferredAnswer

from .wire import BedrockRequest, Reply


class BedrockClient:
    __slots__ = ("is_gone", "is_local", "peer", "principal")

    def __init__(self, peer: str, principal: Principal = ANONYMOUS) -> None:
        self.peer = peer  # address
        self.is_local = is_loopback(peer)
        self.is_gone = False  # the connection is lost
        self.principal = principal  # of the current command


class CommandHandler(Protocol):
    """The command router, as connections use it."""

    def start(self, request: BedrockRequest, client: BedrockClient) -> DeferredAnswer[Any, Reply] | Reply | None:
        """Start a command that has a fast path. None: the command has none, call `answer`."""

    async def answer(self, request: BedrockRequest, client: BedrockClient) -> Reply:
        """Run a command other than Ping and Status.

        A waiting GetJob is cancelled when its client disconnects or the server stops. It then releases its jobs."""

    async def return_undelivered(self, request: BedrockRequest, reply: Reply) -> None:
        """Release the jobs of a reply that reached no client."""

    async def release_jobs(self, jobs: tuple[tuple[bytes, int], ...]) -> None:
        """Release jobs whose connection is lost. Jobs that were reported on in between stay as they are."""

    def stop(self) -> None:
        """End running queries and refuse new ones, because the server stops."""

    async def close(self) -> None:
        """Stop the check for lost takes and end the query processes. No more commands follow."""
