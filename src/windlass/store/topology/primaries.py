"""Queries to every primary of an engine, without opening a namespace: nothing is written."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from windlass.core.errors import WindlassError
from windlass.core.partition import slot_of
from windlass.store.connection.connection import CONNECT_LIMIT_S, CommandArgs
from windlass.store.connection.endpoint import Endpoint
from windlass.store.connection.retry_policy import RetryPolicy
from windlass.store.connection.sync_connection import SyncConnection

from .topology import NodeRoute, Topology


class PrimaryReplies(NamedTuple):
    node: Endpoint
    replies: list[Any]  # an error reply is a value among them


def query_primaries(topology: Topology, commands: Sequence[CommandArgs], patience_s: float) -> list[PrimaryReplies]:
    """Query each primary. While a primary is unreachable, query all again, for up to `patience_s`."""
    route = topology.route(slot_of("0"))
    policy: RetryPolicy | None = None
    while True:
        try:
            return query_primaries_once(topology, commands, patience_s)
        except WindlassError as problem:
            policy = policy or RetryPolicy(route, patience_s)
            pause_s = policy.pause_s_after(problem)
            route.handle_problem(problem, None)
        time.sleep(pause_s)


def query_primaries_once(topology: Topology, commands: Sequence[CommandArgs], limit_s: float) -> list[PrimaryReplies]:
    """Query each primary once, or raise."""
    route = topology.route(slot_of("0"))
    return [_query(route, node, commands, limit_s) for node in topology.find_primaries()]


def _query(route: NodeRoute, node: Endpoint, commands: Sequence[CommandArgs], limit_s: float) -> PrimaryReplies:
    connection = SyncConnection.open(node, min(CONNECT_LIMIT_S, limit_s))
    try:
        if route.check is not None:
            route.check_node(node, connection.call(*route.check))
        return PrimaryReplies(node, connection.pipeline(commands))
    finally:
        connection.close()
