"""Frozen copy: the data of one instant in a private engine, from which they can be read at leisure."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

from windlass.core.errors import EngineUnavailable, WindlassError
from windlass.store.connection.endpoint import ClusterSeeds, SentinelGroup
from windlass.store.embedded.memory_bound import free_memory
from windlass.store.embedded.private_engine import PrivateEngine, private_engine
from windlass.store.store import Store
from windlass.store.topology.primaries import PrimaryReplies, query_primaries
from windlass.store.topology.topology import run_search_sync

from .replication import receive_snapshot

PATIENCE_S = 10.0
GIB = 1 << 30


class FrozenCopy(NamedTuple):
    store: Store
    taken_at_ms: int  # writes acknowledged before are in it
    until_ms: int  # … of the last shard of a cluster, whose shards are copied one after the other


@contextlib.contextmanager
def frozen_copy(source: Store) -> Iterator[FrozenCopy]:
    """Copy all data of the source's engine into a private engine, while the source goes on."""
    found = source.open_sync()
    primaries = query_primaries(source.topology, [("INFO", "memory")], PATIENCE_S)
    _check_memory(primaries)
    _check_slots(source)
    db = _database(source)
    with private_engine(db + 1) as engine:
        instants = [_copy(primary, engine) for primary in primaries]
        _check_slots(source)
        store = Store(engine.endpoint(db), namespace=source.namespace, partitions=found.partitions)
        try:
            store.open_sync()
            yield FrozenCopy(store, min(instants), max(instants))
        finally:
            store.close_sync()


def _copy(primary: PrimaryReplies, engine: PrivateEngine) -> int:
    try:
        with open(engine.data_file, "wb") as file:
            taken_at_ms = receive_snapshot(primary.node, file)
    except OSError as error:
        raise WindlassError(f"{engine.data_file} cannot be written: {error.strerror or error}.") from error
    engine.load()
    return taken_at_ms


def _check_memory(primaries: list[PrimaryReplies]) -> None:
    needed = sum(_used_memory(primary) for primary in primaries)
    free = free_memory()
    if needed > free:
        raise WindlassError(
            f"A copy of the data needs {needed / GIB:,.2f} GiB of memory on this machine, and {free / GIB:,.2f} GiB "
            "are free: run the backup on a larger machine, or use --live, which needs little memory and is not of one "
            "instant (docs/backup.md)."
        )


def _used_memory(primary: PrimaryReplies) -> int:
    (reply,) = primary.replies
    lines = reply.decode(errors="replace").splitlines() if isinstance(reply, bytes) else []
    return next((int(line.partition(":")[2]) for line in lines if line.startswith("used_memory:")), 0)


def _check_slots(source: Store) -> None:
    if run_search_sync(source.topology.find_migrating_slots()):
        raise EngineUnavailable("Slots of the cluster are moving between its nodes; start again when they have moved.")


def _database(source: Store) -> int:
    address = source.endpoint
    if isinstance(address, ClusterSeeds):
        return 0
    return address.node.db if isinstance(address, SentinelGroup) else address.db
