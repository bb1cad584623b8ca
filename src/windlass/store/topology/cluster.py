"""Slot map of a cluster: which primary serves which slots.

Any node can answer. Redirections correct the map; a lost node causes a refresh.
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from windlass.core.errors import EngineUnavailable, EngineUnsuitable, WindlassError
from windlass.store.connection.connection import CommandArgs, EngineReplyError
from windlass.store.connection.endpoint import ClusterSeeds, Endpoint

from .topology import NodeQuery, NodeRoute, NodeSearch, run_search, run_search_sync, search_error

DEFAULT_PARTITIONS = 16
REFRESH_INTERVAL_S = 0.05  # many connections lose a node at once; they share one refresh
_MIGRATING = re.compile(r"\[(\d+)-[<>]-")
_STALE_KINDS = frozenset({"CLUSTERDOWN", "MASTERDOWN", "READONLY", "UNBLOCKED"})


class SlotRange(NamedTuple):
    first: int
    last: int
    primary: Endpoint


class Cluster:
    default_partitions = DEFAULT_PARTITIONS
    has_slots = True

    def __init__(self, seeds: ClusterSeeds) -> None:
        self._address = seeds
        self._nodes = list(seeds.seeds)  # to query, in this order; replicas too
        self._ranges: list[SlotRange] = []
        self._redirected: dict[int, Endpoint] = {}  # slots that were redirected since the last refresh
        self._is_stale = True
        self._refreshed_at_s = 0.0
        self._refreshing: asyncio.Task[None] | None = None

    def __str__(self) -> str:
        return str(self._address)

    def route(self, slot: int) -> NodeRoute:
        return ClusterRoute(self, slot)

    def primary_of(self, slot: int) -> Endpoint:
        if slot in self._redirected:
            return self._redirected[slot]
        for slot_range in self._ranges:
            if slot_range.first <= slot <= slot_range.last:
                return slot_range.primary
        self.mark_stale()
        raise EngineUnavailable(f"No node of {self} serves slot {slot} now.")

    def find_primaries(self) -> list[Endpoint]:
        self.refresh_sync()
        return self.primaries

    @property
    def primaries(self) -> list[Endpoint]:
        return list(dict.fromkeys(slot_range.primary for slot_range in self._ranges))

    def redirect_slot(self, slot: int, endpoint: Endpoint) -> None:
        self._redirected[slot] = endpoint

    def mark_stale(self) -> None:
        """Mark the map as possibly outdated. The next connect refreshes it first."""
        self._is_stale = True

    @property
    def _must_refresh(self) -> bool:
        return self._is_stale and time.monotonic() - self._refreshed_at_s > REFRESH_INTERVAL_S

    async def refresh(self) -> None:
        if not self._must_refresh:
            return
        if self._refreshing is None:
            self._refreshing = asyncio.create_task(run_search(self._find_slots()))
            self._refreshing.add_done_callback(self._refresh_done)
        await asyncio.shield(self._refreshing)

    def _refresh_done(self, task: asyncio.Task[None]) -> None:
        self._refreshing = None
        if not task.cancelled():
            task.exception()  # retrieved, even if the waiting caller was cancelled

    def refresh_sync(self) -> None:
        """Refresh the map. Threads may do so concurrently: each result replaces the whole map."""
        if self._must_refresh:
            run_search_sync(self._find_slots())

    def _find_slots(self) -> NodeSearch[None]:
        problems: list[WindlassError] = []
        for node in tuple(self._nodes):
            answer = yield NodeQuery(node, ("CLUSTER", "SLOTS"))
            if isinstance(answer, EngineReplyError) and "cluster support disabled" in str(answer):
                raise EngineUnsuitable(f"{node} is not a node of a cluster: write its URL with redis:// or rediss://.")
            if isinstance(answer, WindlassError):
                problems.append(answer)
                # Query it last from now on: it may stay away for long.
                self._nodes = [*(other for other in self._nodes if other != node), node]
            else:
                self._learn(node, answer)
                return
        raise search_error(f"No node of {self} answers which slots it serves", problems)

    def _learn(self, queried: Endpoint, answer: Any) -> None:
        self._ranges = [SlotRange(first, last, _node(queried, nodes[0])) for first, last, *nodes in answer]
        known = [_node(queried, node) for _, _, *nodes in answer for node in nodes]
        self._nodes = list(dict.fromkeys([queried, *known, *self._nodes, *self._address.seeds]))[:100]
        self._redirected = {}
        self._is_stale = False
        self._refreshed_at_s = time.monotonic()

    def find_migrating_slots(self) -> NodeSearch[set[int]]:
        """Query the primaries, which alone know. Primaries that do not answer are left out."""
        found: set[int] = set()
        for node in self.primaries:
            answer = yield NodeQuery(node, ("CLUSTER", "NODES"))
            if not isinstance(answer, WindlassError):
                found.update(_migrating_slots(answer.decode()))
        return found


def _migrating_slots(nodes: str) -> Iterator[int]:
    for line in nodes.splitlines():
        if "myself" in line.split(" ", 3)[2]:
            yield from (int(slot) for slot in _MIGRATING.findall(line))


def _node(queried: Endpoint, entry: Any) -> Endpoint:
    """Return the announced endpoint. A node that does not know its own host has the host of the queried node."""
    host = (entry[0] or b"").decode()
    return dataclasses.replace(queried, host=host if host not in ("", "?") else queried.host, port=entry[1])


class ClusterRoute:
    """Route to one slot."""

    check: CommandArgs | None = None

    def __init__(self, cluster: Cluster, slot: int) -> None:
        self._cluster = cluster
        self._slot = slot

    def __str__(self) -> str:
        return str(self._cluster)

    async def find(self) -> Endpoint:
        await self._cluster.refresh()
        return self._cluster.primary_of(self._slot)

    def find_sync(self) -> Endpoint:
        self._cluster.refresh_sync()
        return self._cluster.primary_of(self._slot)

    def check_node(self, endpoint: Endpoint, reply: Any) -> None: ...

    def handle_problem(self, problem: WindlassError, endpoint: Endpoint | None) -> Endpoint | None:
        kind = getattr(problem, "kind", "")
        if kind in ("MOVED", "ASK") and endpoint is not None:
            target = _redirection_target(str(problem), endpoint)
            if target is not None and kind == "ASK":
                return target
            if target is not None:
                self._cluster.redirect_slot(self._slot, target)
                return None
        if kind in _STALE_KINDS or kind == "MOVED" or isinstance(problem, EngineUnavailable):
            self._cluster.mark_stale()
        return None


def _redirection_target(redirection: str, queried: Endpoint) -> Endpoint | None:
    """Read `MOVED slot host:port`. Without a host the target has the host of the queried node."""
    host, _, port = redirection.split(" ")[2].rpartition(":")
    if host == "?" or not port.isdigit():
        return None
    return dataclasses.replace(queried, host=host.strip("[]") or queried.host, port=int(port))
