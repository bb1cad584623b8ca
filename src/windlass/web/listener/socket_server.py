"""Listening sockets and all their connections, whatever they speak: how many there may be, how long each may keep us
waiting, and how they end when the server stops."""

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

# For handlers that were cancelled after the grace.
_CANCELLED_WITHIN_S = 5.0

log = logging.getLogger("windlass.web")


class ClientConnection(Protocol):
    """A connection."""

    def sweep(self, now: float) -> None:
        """Called about once a second: leaves a client that keeps us waiting for too long."""

    def stop_if_idle(self) -> None:
        """Leaves, if nothing is asked."""

    def close_now(self) -> None:
        """The end, whatever is under way."""


G = TypeVar("G", bound=ClientConnection)


class SocketServer(Generic[G]):
    """Made inside the event loop that it will serve in."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.loop = asyncio.get_running_loop()
        self.stopping = asyncio.Event()  # waiting handlers end by it
        self.is_stopping = False  # answers are the last of their connections
        self.is_closing = False  # connections on which nothing is asked are left
        self.idle_s = self.bounds.idle_timeout_s  # now
        self.open = 0  # connections
        self.handlers_running = 0  # handlers
        self.buffered_bytes = 0  # bytes of requests held
        self._servers: list[asyncio.Server] = []
        self._connections: set[G] = set()  # also those whose client has gone while the handler runs on
        self._rejected: set[G] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._is_empty = asyncio.Event()
        self._is_empty.set()

    @abstractmethod
    def _connection(self) -> asyncio.Protocol:
        """A new one."""

    async def start(
        self,
        host: str | Sequence[str] | None = None,
        port: int = 0,
        *,
        sock: socket | Sequence[socket] = (),
        ssl: ssl.SSLContext | None = None,
    ) -> None:
        """Listens on a host's addresses, or on sockets that are given, which other processes may share. May be called
        again for more of them."""
        handshake_s = self.bounds.head_timeout_s if ssl is not None else None
        serve = partial(
            self.loop.create_server, self._connection, ssl=ssl, ssl_handshake_timeout=handshake_s, backlog=1024
        )
        sockets = [sock] if isinstance(sock, socket) else sock
        hosts = [host] if host is None or isinstance(host, str) else host
        # One after the other: asyncio binds those of one call in any order.
        servers = [serve(sock=one) for one in sockets] or [serve(host=one, port=port) for one in hosts]
        try:
            while servers:
                self._servers.append(await servers.pop(0))
        finally:
            for unused in servers:
                unused.close()

    @property
    def addresses(self) -> list[tuple[str, int]]:
        return [one.getsockname()[:2] for server in self._servers for one in server.sockets]

    @property
    def address(self) -> tuple[str, int]:
        return self.addresses[0]

    # What connections call.

    def register(self, connection: G) -> bool:
        """False: there are too many already."""
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
        """Even those that are turned away are too many to be told so."""
        return len(self._rejected) > self.bounds.rejected_max

    def mark_closed(self, connection: G) -> None:
        if connection in self._connections:
            self.open -= 1

    def unregister(self, connection: G) -> None:
        self._connections.discard(connection)
        self._rejected.discard(connection)
        if not self._connections and not self._rejected:
            self._is_empty.set()

    def _sweep(self) -> None:
        """One timer for all connections: what each has waited for is looked at, not counted down."""
        connections = [*self._connections, *self._rejected]
        self._timer = self.loop.call_later(self.bounds.sweep_s, self._sweep) if connections else None
        is_crowded = self.open * 4 >= self.bounds.connections_max * 3
        longest = self.bounds.crowded_timeout_s if is_crowded else self.bounds.idle_timeout_s
        self.idle_s = min(longest, self.bounds.idle_timeout_s)
        now = self.loop.time()
        for connection in connections:
            connection.sweep(now)

    # The end.

    async def stop(self, grace_s: float) -> None:
        """Lets what was asked be answered, and after the grace cancels what is left. Each answer is its connection's
        last now; a moment passes before silent ones are closed: what is on its way would be lost without a word."""
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

    async def _wait_before_closing(self, lull_s: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(lull_s):
                await self._is_empty.wait()

    async def _cut(self) -> None:
        for connection in [*self._connections, *self._rejected]:
            connection.close_now()
        try:
            async with asyncio.timeout(_CANCELLED_WITHIN_S):
                await self._is_empty.wait()
        except TimeoutError:
            log.error("%d requests do not end although they were cancelled.", self.handlers_running)
