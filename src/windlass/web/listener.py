"""The listening sockets and all their connections: how many there may be, how long each may keep us waiting, and how
they end when the server stops."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from functools import partial
from socket import socket

from .bounds import Bounds
from .messages import Application, Client, Head
from .protocol import Connection

OnAnswer = Callable[[Head | None, int, int, float, Client], None]


class Listener:
    def __init__(
        self, application: Application, bounds: Bounds | None = None, on_answer: OnAnswer | None = None
    ) -> None:
        self.application = application
        self.bounds = bounds or Bounds()
        self.on_answer = on_answer  # head, status, bytes of the body, duration in seconds, client
        self.loop = asyncio.get_running_loop()
        self.stopping = asyncio.Event()  # waiting handlers end by it
        self.is_stopping = False
        self.open = 0  # connections
        self.under_way = 0  # handlers
        self.answered = [0] * 6  # by the first digit of the status
        self._servers: list[asyncio.Server] = []
        self._connections: set[Connection] = set()  # also those whose client has gone while the handler runs on
        self._turned_away: set[Connection] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._is_empty = asyncio.Event()
        self._is_empty.set()

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
        sockets = [sock] if isinstance(sock, socket) else list(sock)
        handshake_s = self.bounds.head_timeout_s if ssl is not None else None
        serve = partial(
            self.loop.create_server, self._connection, ssl=ssl, ssl_handshake_timeout=handshake_s, backlog=1024
        )
        for one in sockets:
            self._servers.append(await serve(sock=one))
        if not sockets:
            self._servers.append(await serve(host=host, port=port))

    def _connection(self) -> Connection:
        return Connection(self)

    @property
    def addresses(self) -> list[tuple[str, int]]:
        return [one.getsockname()[:2] for server in self._servers for one in server.sockets]

    @property
    def address(self) -> tuple[str, int]:
        return self.addresses[0]

    # What connections call.

    def welcome(self, connection: Connection) -> bool:
        """False: there are too many already."""
        self._is_empty.clear()
        if self._timer is None:
            self._timer = self.loop.call_later(self.bounds.sweep_s, self._sweep)
        if self.open < self.bounds.connections_max:
            self.open += 1
            self._connections.add(connection)
            return True
        self._turned_away.add(connection)
        if len(self._turned_away) > self.bounds.turned_away_max:
            connection.cut()
        return False

    def lose(self, connection: Connection) -> None:
        if connection in self._connections:
            self.open -= 1

    def forget(self, connection: Connection) -> None:
        self._connections.discard(connection)
        self._turned_away.discard(connection)
        if not self._connections and not self._turned_away:
            self._is_empty.set()

    def _sweep(self) -> None:
        now = self.loop.time()
        for connection in [*self._connections, *self._turned_away]:
            connection.sweep(now)
        is_needed = self._connections or self._turned_away
        self._timer = self.loop.call_later(self.bounds.sweep_s, self._sweep) if is_needed else None

    # The end.

    async def stop(self, grace_s: float) -> None:
        """Accepts nothing more, lets what was asked be answered, and after the grace cancels what is left."""
        self.is_stopping = True
        for server in self._servers:
            server.close()
        self.stopping.set()
        for connection in list(self._connections):
            connection.stop()
        try:
            async with asyncio.timeout(grace_s):
                await self._is_empty.wait()
        except TimeoutError:
            await self._cut()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _cut(self) -> None:
        tasks = [connection.cut() for connection in [*self._connections, *self._turned_away]]
        under_way = [task for task in tasks if task is not None]
        if under_way:
            await asyncio.wait(under_way)
        await self._is_empty.wait()
