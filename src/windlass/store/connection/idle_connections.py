"""Idle connections of blocking callers, kept for the next caller."""

from __future__ import annotations

import contextlib
import time
from collections import deque

from .reconnect import SyncReconnectingConnection

IDLE_MAX_S = 10.0  # then it is not used again: a connection that broke silently would delay a wakeup
KEPT_MAX = 8  # per group; more callers than this at once are rare


class IdleConnections:
    """Open connections that no caller uses, by group of partitions. Threads share it without a lock, which another
    thread might hold during a fork: appends and pops of a deque are atomic."""

    def __init__(self) -> None:
        self._by_group: dict[int, deque[tuple[float, SyncReconnectingConnection]]] = {}
        self._is_closed = False

    def take(self, group: int) -> SyncReconnectingConnection | None:
        """Return the connection that was used last, or None."""
        with contextlib.suppress(IndexError):
            since_s, connection = self._by_group.setdefault(group, deque()).pop()
            if time.monotonic() - since_s <= IDLE_MAX_S:
                return connection
            connection.close()  # those before it are older; `put` closes them
        return None

    def put(self, group: int, connection: SyncReconnectingConnection) -> None:
        idle = self._by_group.setdefault(group, deque())
        idle.append((time.monotonic(), connection))
        self._close_old(idle)

    def close(self) -> None:
        """Close all. A connection that is put back later is closed at once."""
        self._is_closed = True
        for idle in list(self._by_group.values()):
            self._close_old(idle)

    def _close_old(self, idle: deque[tuple[float, SyncReconnectingConnection]]) -> None:
        used_after_s = time.monotonic() - IDLE_MAX_S
        with contextlib.suppress(IndexError):
            while self._is_closed or len(idle) > KEPT_MAX or idle[0][0] < used_after_s:
                idle.popleft()[1].close()
