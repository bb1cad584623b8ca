"""Slots of a cluster that move from node to node, key by key."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tests.topologies.nodes import ClusterNode, ClusterProcesses
from windlass.store.store import Store

PARTITION = 5  # the partition whose slot is moved


def queue_in(store: Store, partition: int) -> str:
    return next(f"x{number}" for number in range(1_000) if store.partition_of_queue(f"x{number}") == partition)


@contextlib.contextmanager
def migrating(cluster: ClusterProcesses, slot: int) -> Iterator[tuple[ClusterNode, ClusterNode]]:
    """Start to move the slot to another node key by key; at the end, make it stable where it was."""
    source = cluster.primary_of(slot)
    target = next(node for node in cluster.primaries if node is not source)
    target.send_command("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
    source.send_command("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)
    try:
        yield source, target
    finally:
        for node in (source, target):
            node.send_command("CLUSTER", "SETSLOT", slot, "STABLE")


def migrate(source: ClusterNode, target: ClusterNode, keys: list[bytes]) -> None:
    if keys:
        source.send_command("MIGRATE", "127.0.0.1", target.port, "", 0, 5_000, "KEYS", *keys)


def move_keys(source: ClusterNode, target: ClusterNode, slot: int) -> None:
    """Move all keys of the slot."""
    while keys := source.send_command("CLUSTER", "GETKEYSINSLOT", slot, 100):
        migrate(source, target, keys)


def end_move(source: ClusterNode, target: ClusterNode, slot: int) -> None:
    for node in (target, source):
        node.send_command("CLUSTER", "SETSLOT", slot, "NODE", target.id)
