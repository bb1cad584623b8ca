"""Stored format of a namespace: its fields in the root of each partition, the check, and how it is raised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windlass.core.errors import BadInput, EngineUnsuitable
from windlass.core.namespace.format import FIRST, KNOWN, SINCE, NamespaceFormat, read_format, refusal_of
from windlass.core.partition import hash_tags, slot_of
from windlass.store.commands.admin.maintenance import require_format
from windlass.store.commands.command import Flow, NodeCommand
from windlass.store.connection.sync_connection import SyncConnection
from windlass.store.keys import root_of

from .topology import Topology

FIELDS = ("layout", "needs_version")  # `layout` is also checked by version 0.1.0, which reads no other number than 1


def format_query(root: str) -> tuple[str, ...]:
    return ("HMGET", root, *FIELDS)


def check_format(namespace: str, reply: Any) -> NamespaceFormat:
    """Return the stored format. Raise if this version does not know it."""
    found = read_format(*reply)
    if not found.is_known:
        raise EngineUnsuitable(refusal_of(namespace, found))
    return found


def stored_format(roots: Sequence[str]) -> Flow[NamespaceFormat]:
    """Read the format of the namespace: the highest of its partitions, of which each decides alone."""
    replies = yield [NodeCommand(format_query(root), partition) for partition, root in enumerate(roots)]
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    return max(read_format(*reply) for reply in replies)


def raise_format(partitions: Sequence[int], number: int) -> Flow[int]:
    """Raise the format of all partitions to a number. Return the format in force. Earlier programs that run go on until
    they connect again."""
    if not FIRST <= number <= KNOWN:
        raise BadInput(f"The format must be from {FIRST} to {KNOWN}, the highest that this version reads.")
    found: list[int] = yield [require_format(number, SINCE[number], partition) for partition in partitions]
    return max(found)


def read_without_opening(topology: Topology, namespace: str, limit_s: float) -> NamespaceFormat | None:
    """Read the format without creating the namespace. None: it is not in use."""
    layout, *_, partitions = _read_marks(topology, namespace, "0", limit_s)
    if layout is None:
        return None
    tags = hash_tags(int(partitions or 1))
    return max(read_format(*_read_marks(topology, namespace, tag, limit_s)[:-1]) for tag in tags)


def _read_marks(topology: Topology, namespace: str, tag: str, limit_s: float) -> list[bytes | None]:
    route = topology.route(slot_of(tag))
    node = route.find_sync()
    connection = SyncConnection.open(node, limit_s)
    try:
        if route.check is not None:
            route.check_node(node, connection.call(*route.check, timeout_s=limit_s))
        marks: list[bytes | None] = connection.call("HMGET", root_of(namespace, tag), *FIELDS, "partitions")
        return marks
    finally:
        connection.close()
