"""Batchers of a store: concurrent commands of one kind share a call of the engine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from windlass.core.job import Durability
from windlass.store.commands.command import Argument, BatchCommand

from .batcher import Batcher
from .request_ids import RequestIds

Items: TypeAlias = Sequence[tuple[Argument, ...]]
Call: TypeAlias = Callable[[str, int, Sequence[Argument], Durability | None], Awaitable[Any]]
BATCHERS_MAX = 100  # heads can differ, e.g. by their lease


class CommandBatchers:
    def __init__(self, call: Call, request_ids: RequestIds) -> None:
        self._call = call
        self._request_ids = request_ids
        self._batchers: dict[tuple[Any, ...], Batcher[Items, list[Any]]] = {}

    def submit(self, command: BatchCommand[Any]) -> Awaitable[list[Any]]:
        """Send a command with others of its kind. Return a future for its replies."""
        kind = (command.operation, command.partition, command.head, command.durability, command.reserves_numbers)
        batcher = self._batchers.get(kind)
        if batcher is None:
            if len(self._batchers) > BATCHERS_MAX:
                self._batchers = {key: kept for key, kept in self._batchers.items() if not kept.is_idle}
            batcher = self._batchers[kind] = Batcher(lambda parts: self._send(command, parts))
        return batcher.submit(command.items, len(command.items), command.size)

    async def send_alone(self, command: BatchCommand[Any]) -> list[Any]:
        """Send a command in a call of its own and return its replies."""
        (replies,) = await self._send(command, (command.items,))
        return replies

    async def _send(self, kind: BatchCommand[Any], parts: Sequence[Items]) -> list[list[Any]]:
        """Send the items of several commands of one kind in one call. Return the replies of each command."""
        arguments = [argument for items in parts for item in items for argument in item]
        with self._request_ids.assign(kind) as request_id:
            args = [*request_id, *kind.head, *arguments]
            replies: list[Any] = await self._call(kind.operation, kind.partition, args, kind.durability)
        if len(parts) == 1:
            return [replies]
        shares: list[list[Any]] = []
        start = 0
        for items in parts:
            end = start + len(items)
            shares.append(replies[start:end])
            start = end
        return shares

    def clear(self) -> None:
        self._batchers.clear()
