"""Topologies: which node serves a partition now. They find it, and learn from failed calls.

A search is a generator of queries to nodes, which runs with and without an event loop.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from windlass.core.errors import EngineUnavailable, WindlassError
from windlass.store.connection.connection import CommandArgs, Connection, EngineReplyError
from windlass.store.connection.endpoint import Endpoint
from windlass.store.connection.sync_connection import SyncConnection

T = TypeVar("T")
QUERY_LIMIT_S = 2.0  # after that another node is queried


class NodeQuery(NamedTuple):
    endpoint: Endpoint
    command: CommandArgs


# The generator is sent the reply, or the error that replaced it.
NodeSearch: TypeAlias = Generator[NodeQuery, Any, T]


class NodeRoute(Protocol):
    """Route to the node that currently serves a partition. Connections look it up at each connect."""

    check: CommandArgs | None  # sent on a new connection before its first use

    def __str__(self) -> str: ...

    async def find(self) -> Endpoint: ...

    def find_sync(self) -> Endpoint: ...

    def check_node(self, endpoint: Endpoint, reply: Any) -> None:
        """Raise if the reply to `check` shows that this is the wrong node."""

    def handle_problem(self, problem: WindlassError, endpoint: Endpoint | None) -> Endpoint | None:
        """Learn from a call that failed at the given node. Return the node to use for one repeat, if any was named."""


class Topology(Protocol):
    default_partitions: int
    has_slots: bool  # partitions may be on different nodes

    def route(self, slot: int) -> NodeRoute: ...

    def find_primaries(self) -> list[Endpoint]:
        """Return every node that accepts writes, including those that serve no partition."""

    def find_migrating_slots(self) -> NodeSearch[set[int]]:
        """Find the slots that are migrating key by key, as their nodes report them."""


class Standalone:
    """Topology of one fixed node."""

    default_partitions = 1
    has_slots = False
    check: CommandArgs | None = None

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def __str__(self) -> str:
        return str(self._endpoint)

    def route(self, _slot: int) -> NodeRoute:
        return self

    def find_primaries(self) -> list[Endpoint]:
        return [self._endpoint]

    def find_migrating_slots(self) -> NodeSearch[set[int]]:
        return no_migrating_slots()

    async def find(self) -> Endpoint:
        return self._endpoint

    def find_sync(self) -> Endpoint:
        return self._endpoint

    def check_node(self, endpoint: Endpoint, reply: Any) -> None: ...

    def handle_problem(self, _problem: WindlassError, _endpoint: Endpoint | None) -> Endpoint | None:
        return None


def no_migrating_slots() -> NodeSearch[set[int]]:
    yield from ()
    return set()


async def run_search(search: NodeSearch[T]) -> T:
    try:
        query = next(search)
        while True:
            query = search.send(await _query(query))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def run_search_sync(search: NodeSearch[T]) -> T:
    try:
        query = next(search)
        while True:
            query = search.send(_query_sync(query))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def _query(query: NodeQuery) -> Any:
    try:
        connection = await Connection.open(query.endpoint, QUERY_LIMIT_S)
        try:
            return await connection.call_within(QUERY_LIMIT_S, *query.command)
        finally:
            connection.close()
            await connection.wait_closed()
    except (EngineUnavailable, EngineReplyError) as problem:
        return problem


def _query_sync(query: NodeQuery) -> Any:
    try:
        connection = SyncConnection.open(query.endpoint, QUERY_LIMIT_S)
        try:
            return connection.call(*query.command, timeout_s=QUERY_LIMIT_S)
        finally:
            connection.close()
    except (EngineUnavailable, EngineReplyError) as problem:
        return problem


def search_error(what: str, problems: list[WindlassError]) -> WindlassError:
    """Return the error of a failed search. If all nodes refused, it is their refusal: waiting would not help."""
    if problems and all(isinstance(problem, EngineReplyError) for problem in problems):
        return problems[0]
    reasons = "; ".join(str(problem) for problem in problems)
    return EngineUnavailable(f"{what} ({reasons})." if reasons else f"{what}.")
