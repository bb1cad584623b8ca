"""Open connections by node. Partitions on one node share a connection, so their commands are pipelined together."""

from __future__ import annotations

import asyncio

from .connection import Connection
from .endpoint import Endpoint


class NodeConnections:
    def __init__(self) -> None:
        self._open: dict[Endpoint, Connection] = {}
        self._opening: dict[Endpoint, asyncio.Task[Connection]] = {}

    async def to(self, endpoint: Endpoint, timeout_s: float) -> Connection:
        """Return the connection to a node. Concurrent callers share one attempt; a cancelled caller does not end it."""
        found = self._open.get(endpoint)
        if found is not None and not found.is_closed:
            return found
        attempt = self._opening.get(endpoint)
        if attempt is None:
            attempt = self._opening[endpoint] = asyncio.create_task(Connection.open(endpoint, timeout_s))
            attempt.add_done_callback(lambda task: self._opened(endpoint, task))
        return await asyncio.shield(attempt)

    def _opened(self, endpoint: Endpoint, attempt: asyncio.Task[Connection]) -> None:
        self._opening.pop(endpoint, None)
        if not attempt.cancelled() and attempt.exception() is None:
            self._open[endpoint] = attempt.result()

    def close(self) -> None:
        for attempt in self._opening.values():
            attempt.cancel()
        for connection in self._open.values():
            connection.close()

    async def wait_closed(self) -> None:
        """Wait until all connections are closed, including one whose attempt succeeded just before `close`."""
        if self._opening:
            await asyncio.wait(self._opening.values())
        for connection in list(self._open.values()):
            connection.close()
            await connection.wait_closed()
        self._open.clear()
