"""Which node serves a partition now? A topology knows, finds out, and learns from what goes wrong. A search is written
once, as questions to nodes; it is driven with and without an event loop."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from windlass.core.errors import EngineUnavailable, WindlassError
from windlass.store.connection.connection import CommandArgs, Connection, EngineReplyError
from windlass.store.connection.endpoint import Endpoint
from windlass.store.connection.sync_connection import SyncConnection

T = TypeVar("T")
QUERY_LIMIT_S = 2.0  # another node is asked then


class NodeQuery(NamedTuple):
    endpoint: Endpoint
    command: CommandArgs


# What is sent back is the reply, or why there was none.
NodeSearch: TypeAlias = Generator[NodeQuery, Any, T]


class Route(Protocol):
    """The way to whichever node serves one partition. Links ask for it each time they connect."""

    check: CommandArgs | None  # what a fresh connection is asked before it is used

    def __str__(self) -> str: ...

    async def find(self) -> Endpoint: ...

    def find_sync(self) -> Endpoint: ...

    def check_node(self, endpoint: Endpoint, reply: Any) -> None:
        """Raises when the reply to `check` shows that this is the wrong node."""

    def handle_problem(self, problem: WindlassError, endpoint: Endpoint | None) -> Endpoint | None:
        """A call on this way failed, at the given node. Answers where to ask this one time, if another node was named
        for it."""


class Topology(Protocol):
    default_partitions: int
    has_slots: bool  # partitions may lie on different nodes

    def route(self, slot: int) -> Route: ...

    def find_primaries(self) -> list[Endpoint]:
        """Every node that accepts writes, also those that serve no partition."""

    def find_migrating_slots(self) -> NodeSearch[set[int]]:
        """Slots that are being moved key by key, as their nodes see it."""


class Standalone:
    """One node, always the same."""

    default_partitions = 1
    has_slots = False
    check: CommandArgs | None = None

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def __str__(self) -> str:
        return str(self._endpoint)

    def route(self, _slot: int) -> Route:
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


async def run_search(inquiry: NodeSearch[T]) -> T:
    try:
        question = next(inquiry)
        while True:
            question = inquiry.send(await _query(question))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def run_search_sync(inquiry: NodeSearch[T]) -> T:
    try:
        question = next(inquiry)
        while True:
            question = inquiry.send(_query_sync(question))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def _query(question: NodeQuery) -> Any:
    try:
        connection = await Connection.open(question.endpoint, QUERY_LIMIT_S)
        try:
            return await connection.call_within(QUERY_LIMIT_S, *question.command)
        finally:
            connection.close()
            await connection.wait_closed()
    except (EngineUnavailable, EngineReplyError) as problem:
        return problem


def _query_sync(question: NodeQuery) -> Any:
    try:
        connection = SyncConnection.open(question.endpoint, QUERY_LIMIT_S)
        try:
            return connection.call(*question.command, timeout_s=QUERY_LIMIT_S)
        finally:
            connection.close()
    except (EngineUnavailable, EngineReplyError) as problem:
        return problem


def search_error(what: str, problems: list[WindlassError]) -> WindlassError:
    """Why a search failed. When all nodes refused us, that is the reason: waiting would not help."""
    if problems and all(isinstance(problem, EngineReplyError) for problem in problems):
        return problems[0]
    said = "; ".join(str(problem) for problem in problems)
    return EngineUnavailable(f"{what} ({said})." if said else f"{what}.")
