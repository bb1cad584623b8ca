"""Listening sockets of the Bedrock dialect, and their connections."""

from __future__ import annotations

from collections.abc import Mapping

from windlass.dialects.bedrock.auth import CommandAuth
from windlass.dialects.bedrock.client import CommandHandler
from windlass.dialects.bedrock.verbs import VERBS, Verb
from windlass.settings import BODY_MAX
from windlass.web.app.auth import Authenticator
from windlass.web.listener.bounds import Bounds
from windlass.web.listener.socket_server import SocketServer

from .connection import BedrockConnection
from .deferred_commands import DeferredCommands

BOUNDS = Bounds(
    connections_max=16_384,
    header_bytes_max=BODY_MAX,  # a command has all its parameters in the head
    headers_max=1000,
    drain_bytes_max=BODY_MAX,
    pipelined_bytes_max=256 * 1024,
    idle_timeout_s=float("inf"),  # no limit until connections run short: then crowded_timeout_s
    crowded_timeout_s=30.0,
    head_timeout_s=300.0,  # people type commands by hand
)


class BedrockListener(SocketServer[BedrockConnection]):
    def __init__(
        self,
        handler: CommandHandler,
        authenticator: Authenticator,
        bounds: Bounds = BOUNDS,
        verbs: Mapping[str, Verb] = VERBS,
    ) -> None:
        super().__init__(bounds)
        self.verbs = verbs
        self.handler = handler
        self.auth = CommandAuth(authenticator)
        self.deferred = DeferredCommands(handler)

    def _connection(self) -> BedrockConnection:
        return BedrockConnection(self)

    @property
    def host(self) -> str:
        """Address, as `Status` shows it."""
        host, port = self.address
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def head_s(self) -> float:
        """Seconds that a request may take to arrive: fewer when connections run short or the server stops."""
        is_short = self.is_closing or self.idle_s < self.bounds.idle_timeout_s
        return min(
            self.bounds.crowded_timeout_s if is_short else self.bounds.head_timeout_s, self.bounds.head_timeout_s
        )

    async def stop(self, grace_s: float) -> None:
        self.is_stopping = True
        self.handler.stop()
        for connection in list(self._connections):
            connection.stop_waiting()
        await super().stop(grace_s)
        await self.deferred.stop(grace_s)
        await self.handler.close()
