"""Socket server for any protocol: listening sockets, the number of connections, timeouts and graceful stop."""

from __future__ import annotations

import asyncio
import logging
import ssl
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from socket import socket
from typing import Generic, Protocol, TypeVar

from .bounds import Bounds

_CANCEL_TIMEOUT_S = 5.0  # for handlers that are cancelled after the grace period

log = logging.getLogger("windlass.web")


class ClientConnection(Protocol):
    """Connection of a client, as the socket server sees it."""

    def sweep(self, now: float) -> None:
        """Close the connection if the client has exceeded a timeout. Called about once a second."""

    def stop_if_idle(self) -> None:
        """Close the connection if it has no request."""

    def close_now(self) -> None:
        """Cancel the handler and cut the connection."""


C = TypeVar("C", bound=ClientConnection)


class SocketServer(Generic[C]):
    """Base class of listeners. Create it inside the event loop that will run it."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.loop = asyncio.get_running_loop()
        self.stopping = asyncio.Event()  # ends handlers that wait
        self.is_stopping = False  # each connection closes after its next answer
        self.is_closing = False  # idle connections are closed
        self.idle_s = self.bounds.idle_timeout_s  # shorter while connections are scarce
        self.open = 0  # connections
        self.handlers_running = 0
        self.buffered_bytes = 0  # of requests
        self._servers: list[asyncio.Server] = []
        self._connections: set[C] = set()  # including lost connections whose handler still runs
        self._rejected: set[C] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._is_empty = asyncio.Event()
        self._is_empty.set()

    @abstractmethod
    def _connection(self) -> asyncio.Protocol:
        """Create the protocol of a new connection."""

    async def start(
        self,
        host: str | Sequence[str] | None = None,
        port: int = 0,
        *,
        sock: socket | Sequence[socket] = (),
        ssl: ssl.SSLContext | None = None,
    ) -> None:
        """Listen on the addresses of a host, or on open sockets, which other processes may share. Can be called again
        for more addresses."""
        handshake_s = self.bounds.head_timeout_s if ssl is not None else None
        serve = partial(
            self.loop.create_server, self._connection, ssl=ssl, ssl_handshake_timeout=handshake_s, backlog=1024
        )
        sockets = [sock] if isinstance(sock, socket) else sock
        hosts = [host] if host is None or isinstance(host, str) else host
        # One call for each: within one call asyncio binds in any order.
        servers = [serve(sock=open_socket) for open_socket in sockets] or [
            serve(host=name, port=port) for name in hosts
        ]
        try:
            while servers:
                self._servers.append(await servers.pop(0))
        finally:
            for unused in servers:
                unused.close()

    @property
    def addresses(self) -> list[tuple[str, int]]:
        return [listening.getsockname()[:2] for server in self._servers for listening in server.sockets]

    @property
    def address(self) -> tuple[str, int]:
        return self.addresses[0]

    # Called by connections.

    def register(self, connection: C) -> bool:
        """Add a connection. Return False if there are too many; the connection is then rejected."""
        self._is_empty.clear()
        if self._timer is None:
            self._timer = self.loop.call_later(self.bounds.sweep_s, self._sweep)
        if self.open < self.bounds.connections_max:
            self.open += 1
            self._connections.add(connection)
            return True
        self._rejected.add(connection)
        return False

    @property
    def has_too_many_rejected(self) -> bool:
        """Whether too many connections are being rejected for each to get an answer."""
        return len(self._rejected) > self.bounds.rejected_max

    def mark_closed(self, connection: C) -> None:
        if connection in self._connections:
            self.open -= 1

    def unregister(self, connection: C) -> None:
        self._connections.discard(connection)
        self._rejected.discard(connection)
        if not self._connections and not self._rejected:
            self._is_empty.set()

    def _sweep(self) -> None:
        """Check the timeouts of all connections. One timer for all is cheaper than one for each."""
        connections = [*self._connections, *self._rejected]
        self._timer = self.loop.call_later(self.bounds.sweep_s, self._sweep) if connections else None
        is_crowded = self.open * 4 >= self.bounds.connections_max * 3
        longest = self.bounds.crowded_timeout_s if is_crowded else self.bounds.idle_timeout_s
        self.idle_s = min(longest, self.bounds.idle_timeout_s)
        now = self.loop.time()
        for connection in connections:
            connection.sweep(now)

    # Stopping.

    async def stop(self, grace_s: float) -> None:
        """Answer the requests that have arrived, then cancel the rest after the grace period. From now on each
        connection closes after its next answer. Idle connections are closed a moment later, because requests in
        transit would be lost without an answer."""
        self.is_stopping = True
        self.stopping.set()
        await self._wait_before_closing(min(self.bounds.stop_delay_s, grace_s))
        self.is_closing = True
        for server in self._servers:
            server.close()
        for connection in list(self._connections):
            connection.stop_if_idle()
        try:
            async with asyncio.timeout(grace_s):
                await self._is_empty.wait()
        except TimeoutError:
            await self._cut()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _wait_before_closing(self, delay_s: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self._is_empty.wait()

    async def _cut(self) -> None:
        for connection in [*self._connections, *self._rejected]:
            connection.close_now()
        try:
            async with asyncio.timeout(_CANCEL_TIMEOUT_S):
                await self._is_empty.wait()
        except TimeoutError:
            log.error(
                "%d handlers have not ended within %g s after they were cancelled; the server stops without them.",
                self.handlers_running,
                _CANCEL_TIMEOUT_S,
            )
