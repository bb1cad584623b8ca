"""Sentinel topology: any sentinel that answers names the primary, and the primary itself must confirm its role."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from typing import Any

from windlass.core.errors import BadSetting, EngineUnavailable, WindlassError
from windlass.retry_loop import RetryLoop
from windlass.store.connection.connection import CommandArgs, Connection, ConnectionLost, EngineReplyError
from windlass.store.connection.endpoint import Endpoint, SentinelGroup

from .permissions import explain_refusal
from .topology import (
    QUERY_LIMIT_S,
    NodeQuery,
    NodeRoute,
    NodeSearch,
    no_migrating_slots,
    run_search,
    run_search_sync,
    search_error,
)

log = logging.getLogger("windlass.store")

# Another sentinel is next, and calls find the primary without this watch, so one that is away is no news.
WATCH_RETRIES = RetryLoop(
    log, "Could not watch the sentinels", (EngineUnavailable, EngineReplyError), level=logging.DEBUG
)


class Sentinel:
    """Topology in which all partitions are on the current primary."""

    default_partitions = 1
    has_slots = False
    check: CommandArgs | None = ("ROLE",)

    def __init__(self, group: SentinelGroup) -> None:
        self._group = group
        self._sentinels = list(group.sentinels)

    def __str__(self) -> str:
        return str(self._group)

    def route(self, _slot: int) -> NodeRoute:
        return self

    def find_primaries(self) -> list[Endpoint]:
        return [self.find_sync()]

    def find_migrating_slots(self) -> NodeSearch[set[int]]:
        return no_migrating_slots()

    async def find(self) -> Endpoint:
        return await run_search(self._find_primary())

    def find_sync(self) -> Endpoint:
        return run_search_sync(self._find_primary())

    def check_node(self, endpoint: Endpoint, reply: Any) -> None:
        if reply[0] != b"master":
            raise ConnectionLost(f"{endpoint} is not the primary of {self._group.service} (any more, or yet).")

    def handle_problem(self, problem: WindlassError, _endpoint: Endpoint | None) -> Endpoint | None:
        """Query another sentinel first next time: it may know better."""
        if isinstance(problem, EngineUnavailable):
            self._sentinels = [*self._sentinels[1:], self._sentinels[0]]
        return None

    async def watch(self, changed: Callable[[], None]) -> None:
        """Call `changed` when the sentinels name another primary, until cancelled.

        The old primary may live on and accept writes that will be lost, so waiting for it to close its connections is
        not enough.
        """
        known: Endpoint | None = None
        was_refused = False

        async def watch_once() -> None:
            nonlocal known, was_refused
            try:
                known = await self._wait_for_announcement(known, changed)
            except WATCH_RETRIES.errors as error:
                if isinstance(error, EngineReplyError) and not was_refused:
                    was_refused = True
                    log.warning(
                        "Cannot subscribe to the sentinels' announcements: %s Windlass will notice a failover late, "
                        "when the old primary closes its connections.",
                        explain_refusal(error),
                    )
                self._sentinels = [*self._sentinels[1:], self._sentinels[0]]
                raise

        await WATCH_RETRIES.forever(watch_once)

    async def _wait_for_announcement(self, known: Endpoint | None, changed: Callable[[], None]) -> Endpoint:
        """Return the primary that the sentinels named, after a sentinel has announced another one or was lost."""
        connection = await Connection.open(self._sentinels[0])
        try:
            await connection.call_within(QUERY_LIMIT_S, "SUBSCRIBE", "+switch-master")
            found = await self.find()
            if known not in (None, found):
                changed()
            # A published message is a reply without a call: it ends this connection, as a lost sentinel does.
            await connection.wait_closed()
            return found
        finally:
            connection.close()

    def _find_primary(self) -> NodeSearch[Endpoint]:
        problems: list[WindlassError] = []
        for sentinel in self._sentinels:
            answer = yield NodeQuery(sentinel, ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._group.service))
            if isinstance(answer, WindlassError):
                problems.append(answer)
            elif answer is not None:
                return dataclasses.replace(self._group.node, host=answer[0].decode(), port=int(answer[1]))
        if not problems:
            raise BadSetting(f"No sentinel knows the service {self._group.service!r}: check the path of {self}.")
        raise search_error(f"No sentinel of {self} names the primary", problems)
