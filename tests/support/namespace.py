"""Looks into the namespace of a test past the code under test: which keys are there, and what they hold."""

from __future__ import annotations

from typing import Any

from windlass.store.connection.sync_connection import SyncConnection
from windlass.store.store import Store

# What may stay when all jobs are gone: root hash, counters, configuration, marks of ended ids (they expire).
LASTING = (b"throttle:", b"seq", b"token", b"queues", b"q:", b"m:", b"ended:", b"timers:")


def ask(store: Store, *command: str | bytes | int) -> Any:
    connection = SyncConnection.open(store.endpoint)
    try:
        return connection.call(*command)
    finally:
        connection.close()


def keys(store: Store) -> list[bytes]:
    """Without the namespace and the partition's root, sorted; the root itself is left out."""
    prefix = f"{store.root(0)}:".encode()
    found: list[bytes] = ask(store, "KEYS", prefix.replace(b"[", b"\\[") + b"*")
    return sorted(key.removeprefix(prefix) for key in found)


def dump(store: Store) -> dict[bytes, bytes]:
    """Every key with its serialised value: equal dumps mean that nothing was changed."""
    prefix = f"{store.root(0)}:".encode()
    connection = SyncConnection.open(store.endpoint)
    try:
        return {key: connection.call("DUMP", prefix + key) for key in keys(store)}
    finally:
        connection.close()


def left_behind(store: Store) -> list[bytes]:
    """Keys that somebody should have removed by the time no job is left."""
    return [key for key in keys(store) if not key.startswith(LASTING)]
