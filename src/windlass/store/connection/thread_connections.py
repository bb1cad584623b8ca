"""Connections that the threads of a process share for their calls."""

from __future__ import annotations

import contextlib
import itertools
from collections import deque
from collections.abc import Callable, Iterator

from .reconnect import SyncReconnectingConnection

# With 100 threads that store steps, 4, 8 and 16 connections were 1.0, 1.9 and 2.4 times as fast as one: medians of
# three rounds on a busy machine, which differed much (16 connections: 0.9, 2.4, 2.6).
CONNECTIONS_MAX = 16


class ThreadConnections:
    """Connections to one destination. A caller that finds all of them in use gets a further one, up to a limit.

    On one connection the calls of threads wait for each other. An engine that flushes each write to disk flushes the
    calls of several connections together. Threads share it without a lock, which another thread might hold during a
    fork: appends and pops of a deque are atomic.
    """

    def __init__(self, make: Callable[[], SyncReconnectingConnection]) -> None:
        self._make = make
        self.first = make()
        self._all = [self.first]
        self._free = deque(self._all)
        self._turns = itertools.count()

    @contextlib.contextmanager
    def lend(self) -> Iterator[SyncReconnectingConnection]:
        """Lend a connection for one call: the first, unless it is in use."""
        try:
            connection = self._free.pop()
        except IndexError:
            if len(self._all) >= CONNECTIONS_MAX:
                yield self._all[next(self._turns) % CONNECTIONS_MAX]  # it makes its callers wait for each other
                return
            connection = self._make()
            self._all.append(connection)
        try:
            yield connection
        finally:
            self._free.append(connection)

    def close(self) -> None:
        for connection in self._all:
            connection.close()
