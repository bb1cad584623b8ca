"""Stored format of a namespace: its fields in the root of each partition, the check, and how it is raised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windlass import __version__
from windlass.core.errors import BadInput, EngineUnsuitable
from windlass.core.namespace.format import FIRST, KNOWN, NamespaceFormat, read_format, refusal_of
from windlass.core.partition import slot_of
from windlass.store import keys
from windlass.store.commands.admin.maintenance import require_format
from windlass.store.commands.command import Flow, NodeCommand
from windlass.store.connection.connection import EngineReplyError
from windlass.store.connection.sync_connection import SyncConnection

from .permissions import raise_explained
from .topology import Topology

FIELDS = ("layout", "layout_by")  # `layout` is also checked by version 0.1.0, which reads no other number than 1


def format_query(root: str) -> tuple[str, ...]:
    return ("HMGET", root, *FIELDS)


def check_format(namespace: str, reply: Any) -> NamespaceFormat:
    """Return the stored format. Raise if this version does not know it."""
    found = read_format(*reply)
    if not found.is_known:
        raise EngineUnsuitable(refusal_of(namespace, found))
    return found


def stored_format(root: str) -> Flow[NamespaceFormat]:
    """Read the format of partition 0, which is raised last."""
    reply = yield NodeCommand(format_query(root), 0)
    if isinstance(reply, Exception):
        raise reply
    return read_format(*reply)


def raise_format(partitions: Sequence[int], number: int) -> Flow[int]:
    """Raise the format of all partitions to a number. Return the format in force. Earlier programs that run go on until
    they connect again."""
    if not FIRST <= number <= KNOWN:
        raise BadInput(f"The format must be from {FIRST} to {KNOWN}, the highest that this version reads.")
    # Partition 0 last: what it says, all others have.
    in_force = number
    for partition in reversed(partitions):
        in_force = yield require_format(number, __version__, partition)
    return in_force


def read_without_opening(topology: Topology, namespace: str, limit_s: float) -> NamespaceFormat | None:
    """Read the format without creating the namespace. None: it is not in use."""
    root = keys.root_of(namespace, "0")
    route = topology.route(slot_of("0"))
    node = route.find_sync()
    connection = SyncConnection.open(node, limit_s)
    try:
        if route.check is not None:
            route.check_node(node, connection.call(*route.check, timeout_s=limit_s))
        (reply,) = connection.pipeline([format_query(root)], limit_s)
    finally:
        connection.close()
    if isinstance(reply, EngineReplyError):
        raise_explained(reply)
    return None if reply[0] is None else read_format(*reply)
