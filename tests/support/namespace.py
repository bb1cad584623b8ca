"""Direct reads of a test's namespace, without the code under test: its keys and their values."""

from __future__ import annotations

from typing import Any

from windlass.store.connection.sync_connection import SyncConnection
from windlass.store.store import Store

# Keys that may stay without jobs: counters, configuration, and ids of ended jobs, which expire.
LASTING = (b"throttle:", b"seq", b"token", b"queues", b"q:", b"m:", b"ended:", b"timers:")


def send_command(store: Store, *command: str | bytes | int) -> Any:
    connection = SyncConnection.open(store.endpoint)
    try:
        return connection.call(*command)
    finally:
        connection.close()


def list_keys(store: Store) -> list[bytes]:
    """Return the sorted keys below the partition's root, without its prefix. The root itself is left out."""
    prefix = f"{store.root(0)}:".encode()
    found: list[bytes] = send_command(store, "KEYS", prefix.replace(b"[", b"\\[") + b"*")
    return sorted(key.removeprefix(prefix) for key in found)


def dump_keys(store: Store) -> dict[bytes, bytes]:
    """Return every key with its serialised value: equal dumps mean equal data."""
    prefix = f"{store.root(0)}:".encode()
    connection = SyncConnection.open(store.endpoint)
    try:
        return {key: connection.call("DUMP", prefix + key) for key in list_keys(store)}
    finally:
        connection.close()


def leftover_keys(store: Store) -> list[bytes]:
    """Return the keys that must not exist without jobs."""
    return [key for key in list_keys(store) if not key.startswith(LASTING)]
