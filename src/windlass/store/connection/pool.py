"""Connection pool of a store: one reconnecting connection per purpose and destination, created on first use."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import Callable, Iterator, Sequence

from windlass.core.partition import slot_of
from windlass.store.embedded.engine import EmbeddedEngine
from windlass.store.topology.cluster import Cluster
from windlass.store.topology.sentinel import Sentinel
from windlass.store.topology.topology import Standalone, Topology

from .endpoint import Address, ClusterSeeds, SentinelGroup
from .idle_connections import IdleConnections
from .node_connections import NodeConnections
from .reconnect import ReconnectingConnection, SyncReconnectingConnection
from .redirection import LoadCommand
from .thread_connections import ThreadConnections


def topology_of(address: Address) -> Topology:
    if isinstance(address, SentinelGroup):
        return Sentinel(address)
    if isinstance(address, ClusterSeeds):
        return Cluster(address)
    return Standalone(address)


class ConnectionPool:
    def __init__(
        self, topology: Topology, engine: EmbeddedEngine | None, patience_s: float, load_command: LoadCommand
    ) -> None:
        self._topology = topology
        self._load_command = load_command
        self._engine = engine
        self._patience_s = patience_s
        self._tags: Sequence[str] = ("0",)
        self._roots: Sequence[str] = ()
        self._connections: dict[tuple[str, int], ReconnectingConnection] = {}
        self._dedicated: weakref.WeakSet[ReconnectingConnection] = weakref.WeakSet()
        self._shared_nodes = NodeConnections()
        self._thread_connections: dict[tuple[str, int], ThreadConnections] = {}
        self._idle = IdleConnections()
        self._watching: asyncio.Task[None] | None = None
        self.on_interruption: list[Callable[[], None]] = []

    def set_partitions(self, tags: Sequence[str], roots: Sequence[str]) -> None:
        """Set the hash tags and the key roots of all partitions, once the deployment is known."""
        self._tags, self._roots = tags, roots

    def connection(
        self, purpose: str, partition: int, connecting: Callable[[], None] | None = None
    ) -> ReconnectingConnection:
        """Return the connection for a purpose (calls, durable calls, wakeups). Purposes never wait for each other."""
        key = purpose, self._group_of(purpose, partition)
        found = self._connections.get(key)
        if found is None:
            found = self._connections[key] = self._new_connection(purpose, partition, connecting)
            if self._watching is None and isinstance(self._topology, Sentinel):
                self._watching = asyncio.create_task(self._topology.watch(self._reconnect_all), name="windlass-watch")
        return found

    def new_connection(self, partition: int, connecting: Callable[[], None]) -> ReconnectingConnection:
        """Return a connection that its owner closes. `connecting` is called before each connect."""
        found = self._new_connection("dedicated", partition, connecting)
        self._dedicated.add(found)
        return found

    def sync_connection(self, purpose: str, partition: int) -> SyncReconnectingConnection:
        return self.thread_connections(purpose, partition).first

    def thread_connections(self, purpose: str, partition: int) -> ThreadConnections:
        key = purpose, self._group_of(purpose, partition)
        found = self._thread_connections.get(key)
        if found is None:
            # With two threads at once the first wins; the connection of the other was never opened.
            made = ThreadConnections(lambda: self.new_sync_connection(partition))
            found = self._thread_connections.setdefault(key, made)
        return found

    def new_sync_connection(self, partition: int) -> SyncReconnectingConnection:
        return SyncReconnectingConnection(
            self._topology.route(slot_of(self._tags[partition])),
            before_connect=self._engine.ensure if self._engine else None,
            patience_s=self._patience_s,
            roots=lambda: self._roots_reached(partition),
            load_command=self._load_command,
        )

    @contextlib.contextmanager
    def blocking_connection(self, partition: int) -> Iterator[SyncReconnectingConnection]:
        """Lend a connection for one command that blocks in the engine. After an error or an interrupt it is closed: a
        late reply would be read as the reply of the next command."""
        group = self._group_of("wakeups", partition)
        connection = self._idle.take(group) or self.new_sync_connection(partition)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        self._idle.put(group, connection)

    async def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None
        for connection in self._connections.values():
            connection.close()
        for connection in self._connections.values():
            await connection.wait_closed()
        self._connections.clear()

    def close_sync(self) -> None:
        for connections in self._thread_connections.values():
            connections.close()
        self._idle.close()

    def _group_of(self, purpose: str, partition: int) -> int:
        """Return the group of partitions that share a connection.

        All partitions share one, unless they may be on different nodes or would wait for each other's confirmations.
        """
        return partition if self._topology.has_slots or purpose == "durable" else 0

    def _roots_reached(self, partition: int) -> Sequence[str]:
        return self._roots[partition : partition + 1] if self._topology.has_slots else self._roots

    def _new_connection(
        self, purpose: str, partition: int, connecting: Callable[[], None] | None
    ) -> ReconnectingConnection:
        engine = self._engine

        async def before_connect() -> None:
            if engine is not None:
                await asyncio.to_thread(engine.ensure)
            if connecting is not None:
                connecting()

        return ReconnectingConnection(
            self._topology.route(slot_of(self._tags[partition])),
            before_connect=before_connect,
            patience_s=self._patience_s,
            # Only calls are short enough for several partitions to share a node's connection.
            nodes=self._shared_nodes if purpose == "calls" else None,
            roots=(lambda: self._roots_reached(partition)) if purpose in ("calls", "durable") else tuple,
            load_command=self._load_command,
            interrupted=self._interrupted if purpose == "calls" else None,
        )

    def _interrupted(self) -> None:
        for handler in self.on_interruption:
            handler()

    def _reconnect_all(self) -> None:
        for connection in (*self._connections.values(), *self._dedicated):
            connection.reconnect()
