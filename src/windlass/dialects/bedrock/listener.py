"""The listening sockets of Bedrock and their connections."""

from __future__ import annotations

from windlass.settings import BODY_MAX
from windlass.web.app.auth import Authenticator
from windlass.web.listener.bounds import Bounds
from windlass.web.listener.socket_server import SocketServer

from .auth import CommandAuth
from .client import CommandHandler
from .connection import BedrockConnection
from .deferred_commands import DeferredCommands

BOUNDS = Bounds(
    connections_max=16_384,
    header_bytes_max=BODY_MAX,  # all that a command says is in its head
    headers_max=1000,
    drain_bytes_max=BODY_MAX,
    pipelined_bytes_max=256 * 1024,
    idle_timeout_s=float("inf"),  # a worker may keep its connection for as long as it likes, unless they run out
    crowded_timeout_s=30.0,
    head_timeout_s=300.0,  # people type them
)


class BedrockListener(SocketServer[BedrockConnection]):
    def __init__(self, desk: CommandHandler, guard: Authenticator, bounds: Bounds = BOUNDS) -> None:
        super().__init__(bounds)
        self.handler = desk
        self.auth = CommandAuth(guard)
        self.deferred = DeferredCommands(desk)

    def _connection(self) -> BedrockConnection:
        return BedrockConnection(self)

    @property
    def host(self) -> str:
        """As `Status` names it."""
        host, port = self.address
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def head_s(self) -> float:
        """How long a request may take to arrive, now."""
        is_pressed = self.is_closing or self.idle_s < self.bounds.idle_timeout_s
        return min(
            self.bounds.crowded_timeout_s if is_pressed else self.bounds.head_timeout_s, self.bounds.head_timeout_s
        )

    async def stop(self, grace_s: float) -> None:
        self.is_stopping = True
        self.handler.stop()
        for connection in list(self._connections):
            connection.stop_waiting()
        await super().stop(grace_s)
        await self.deferred.stop(grace_s)
        await self.handler.close()
