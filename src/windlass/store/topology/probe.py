"""Probe of an engine: asks what it can do for Windlass. It opens no namespace, and nothing stays behind."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from windlass.core.partition import hash_tags, slot_of
from windlass.store import keys
from windlass.store.connection.connection import CommandArgs
from windlass.store.connection.endpoint import Endpoint
from windlass.store.connection.sync_connection import SyncConnection
from windlass.store.scripts import library

from . import permissions
from .health import CONFIG, INFO, LIBRARIES, TIME
from .namespace_format import FIELDS
from .topology import NodeRoute, Topology

ROUND_TRIPS = 20
ROUND_TRIPS_LIMIT_S = 0.5
UNKNOWN_SHA = "0" * 40
# One script, so that the key is gone when it ends, even if this process dies. As in the operations of Windlass, the
# declared key is the root of the partition, and the used key has the same hash tag: some engines refuse that.
WRITE_AND_REMOVE = """redis.call('SET', ARGV[1], 'x', 'PX', 1000)
local found = redis.call('GET', ARGV[1])
redis.call('DEL', ARGV[1])
return found"""


class ProbeReplies(NamedTuple):
    """Replies of one node. Refusals are error values among them."""

    node: Endpoint
    root: str  # of a partition that it serves
    here_ms: int  # this machine's clock when they came
    round_trips_us: Sequence[int]
    replies: dict[str, Any]


def probe_nodes(topology: Topology, namespace: str, limit_s: float) -> list[ProbeReplies]:
    """Query each node that serves a partition. Raise if a node cannot be reached, or refuses the connection."""
    by_node: dict[Endpoint, str] = {}
    for tag in hash_tags(topology.default_partitions):
        by_node.setdefault(topology.route(slot_of(tag)).find_sync(), tag)
    return [
        _probe(topology.route(slot_of(tag)), node, keys.root_of(namespace, tag), topology.has_slots, limit_s)
        for node, tag in by_node.items()
    ]


def probe_commands(root: str, *, is_cluster: bool) -> dict[str, CommandArgs]:
    """Return the queries by name. Commands that write or wait are sent in a form that has no effect."""
    wanted = permissions.required_permissions(is_cluster)
    return {
        "info": INFO,
        "config": CONFIG,
        "libraries": LIBRARIES,
        "permissions": permissions.check_command(root, wanted),
        "marks": ("HMGET", root, *FIELDS, "partitions"),
        "function": ("FCALL", library().function("limits"), 1, root, 0),
        "script": ("EVALSHA", UNKNOWN_SHA, 1, root),
        "write": ("EVAL", WRITE_AND_REMOVE, 1, root, keys.probe(root)),
        "pop": ("BLPOP", keys.probe(root), "0.01"),
        "read": ("XREAD", "BLOCK", 1, "STREAMS", keys.events(root), "$"),
        "wait": ("WAIT", 0, 1),
        "waitaof": ("WAITAOF", 0, 0, 1),
        "time": TIME,  # last: it is compared with the time at which the replies come
    }


def _probe(route: NodeRoute, node: Endpoint, root: str, is_cluster: bool, limit_s: float) -> ProbeReplies:
    connection = SyncConnection.open(node, limit_s)
    try:
        if route.check is not None:
            route.check_node(node, connection.call(*route.check, timeout_s=limit_s))
        commands = probe_commands(root, is_cluster=is_cluster)
        replies = dict(zip(commands, connection.pipeline(list(commands.values()), limit_s), strict=True))
        here_ms = int(time.time() * 1000)
        return ProbeReplies(node, root, here_ms, _round_trips_us(connection, limit_s), replies)
    finally:
        connection.close()


def _round_trips_us(connection: SyncConnection, limit_s: float) -> list[int]:
    """Measure the cheapest command. A user without the permission for it gets a refusal, which takes as long."""
    found: list[int] = []
    began_s = now_s = time.perf_counter()
    while len(found) < ROUND_TRIPS and now_s - began_s < ROUND_TRIPS_LIMIT_S:
        connection.pipeline([TIME], limit_s)
        then_s, now_s = now_s, time.perf_counter()
        found.append(round((now_s - then_s) * 1_000_000))
    return found
