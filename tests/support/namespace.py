"""Direct reads of a test's namespace, without the code under test: its keys, their values, and calls of operations."""

from __future__ import annotations

import contextlib
import re
import socket
import uuid
from collections.abc import Iterator
from typing import Any

from tests.support.engine_process import EngineProcess, admin_endpoint
from windlass.store.connection.sync_connection import SyncConnection
from windlass.store.scripts import library
from windlass.store.store import Store

# Keys that may stay without jobs: counters, configuration, and ids of ended jobs, which expire.
LASTING = (b"throttle:", b"seq", b"token", b"queues", b"q:", b"m:", b"ended:", b"timers:")
MONITOR_LIMIT_S = 20.0
_CALL = re.compile(rb'^\+\S+ \[\d+ (?!lua\])[^\]]*\] "(?:FCALL|EVALSHA)" "(\w+)" "1" "([^"]*)"')


def send_command(store: Store, *command: str | bytes | int) -> Any:
    connection = SyncConnection.open(admin_endpoint(store.endpoint))  # type: ignore[arg-type]
    try:
        return connection.call(*command)
    finally:
        connection.close()


def list_keys(store: Store) -> list[bytes]:
    """Return the sorted keys below the partition's root, without its prefix. The root itself is left out."""
    prefix = f"{store.root(0)}:".encode()
    found: list[bytes] = send_command(store, "KEYS", prefix.replace(b"[", b"\\[") + b"*")
    return sorted(key.removeprefix(prefix) for key in found)


def dump_keys(store: Store) -> dict[bytes, Any]:
    """Return every key with its value: equal dumps mean equal data."""
    prefix = f"{store.root(0)}:".encode()
    connection = SyncConnection.open(admin_endpoint(store.endpoint))  # type: ignore[arg-type]
    try:
        return {key: _dump(connection, prefix + key) for key in list_keys(store)}
    finally:
        connection.close()


def _dump(connection: SyncConnection, key: bytes) -> Any:
    """Return the value of a key. A hash is read: reading may change the order of its fields in the engine's memory."""
    if connection.call("TYPE", key) == b"hash":
        pairs: list[bytes] = connection.call("HGETALL", key)
        return dict(zip(pairs[::2], pairs[1::2], strict=True))
    return connection.call("DUMP", key)


def leftover_keys(store: Store) -> list[bytes]:
    """Return the keys that must not exist without jobs."""
    return [key for key in list_keys(store) if not key.startswith(LASTING)]


@contextlib.contextmanager
def record_operations(engine: EngineProcess, store: Store) -> Iterator[list[str]]:
    """Yield a list. After the block it has the operations that were called in the store's namespace, in order.

    The engine's MONITOR reports them."""
    found: list[str] = []
    with socket.socket(socket.AF_UNIX) as monitor:
        monitor.settimeout(MONITOR_LIMIT_S)
        monitor.connect(str(engine.socket_path))
        monitor.sendall(b"MONITOR\r\n")
        lines = monitor.makefile("rb")
        assert lines.readline() == b"+OK\r\n"
        yield found
        marker = uuid.uuid4().hex
        send_command(store, "ECHO", marker)
        roots = {store.root(partition).encode() for partition in range(store.partitions)}
        for line in lines:
            if marker.encode() in line:
                break
            called = _CALL.match(line)
            if called and called[2] in roots:
                found.append(_operation_of(called[1].decode()))


def _operation_of(code: str) -> str:
    """Return the operation of a function's name or a script's hash."""
    function = re.fullmatch(r"(\w+)_[0-9a-f]{12}", code)
    return function[1] if function else library().operation_of(code)
