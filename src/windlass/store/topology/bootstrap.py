"""Looks at every node before anything is written: may it be trusted with jobs, and how are they laid out there? Then
marks what is new."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from windlass.core.errors import EngineUnsuitable, WindlassError
from windlass.core.ids import PARTITIONS_MAX
from windlass.core.job import Durability
from windlass.core.partition import hash_tags, slot_of
from windlass.store.connection.connection import CONNECT_LIMIT_S, CommandArgs, EngineReplyError
from windlass.store.connection.endpoint import Endpoint
from windlass.store.connection.replies import check_library_missing
from windlass.store.connection.retry_policy import RetryPolicy
from windlass.store.connection.sync_connection import SyncConnection
from windlass.store.scripts import library

from . import permissions
from .requirements import LAYOUT, QUERIES, Deployment, check_requirements, combine_nodes
from .topology import Route, Topology


class DeploymentOptions(NamedTuple):
    """What the deployment must be like, and how it is marked when it is new."""

    namespace: str
    partitions: int  # 0: as it is; a new one as its topology suggests
    durability: Durability
    durable_wait_ms: int
    allow_eviction: bool
    is_test: bool


def root_of(namespace: str, tag: str) -> str:
    return f"{namespace}:{{{tag}}}"


def open_deployment(
    topology: Topology, terms: DeploymentOptions, patience_s: float, before_connect: Callable[[], None] | None = None
) -> Deployment:
    """Tries again while the engine cannot be reached, within the patience."""
    policy: RetryPolicy | None = None
    while True:
        survey = Bootstrap(topology, terms, min(CONNECT_LIMIT_S, patience_s))
        try:
            if before_connect is not None:
                before_connect()
            with contextlib.closing(survey):
                return survey.run()
        except WindlassError as problem:
            policy = policy or RetryPolicy(survey.route, patience_s)
            pause_s = policy.pause_s_after(problem)
            survey.route.handle_problem(problem, survey.node)
        time.sleep(pause_s)


class Bootstrap:
    """One look at all nodes; each is connected to once."""

    def __init__(self, topology: Topology, terms: DeploymentOptions, connect_limit_s: float) -> None:
        self._topology = topology
        self._terms = terms
        self._connect_limit_s = connect_limit_s
        self._connections: dict[Endpoint, SyncConnection] = {}
        self.route: Route = topology.route(slot_of("0"))  # that was asked last, and its node: where a problem arose
        self.node: Endpoint | None = None

    @property
    def _user(self) -> str:
        """Of the node that was asked last."""
        return (self.node.username if self.node else None) or "default"

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    def run(self) -> Deployment:
        # A single node first of all: another kind of engine might not even answer about its keys.
        examined = [] if self._topology.has_slots else [self._examine("0")]
        root = root_of(self._terms.namespace, "0")
        (stored,) = self._ask("0", [("HMGET", root, "layout", "partitions")])
        partitions = self._partitions(*stored)
        tags = hash_tags(partitions)
        self._check_layouts(tags)
        examined = examined or [self._examine(one) for one in self._one_tag_per_node(tags)]
        found = combine_nodes(examined, partitions, is_test=self._terms.is_test)
        found.command_for(self._terms.durability, self._terms.durable_wait_ms)
        return found if self._mark(tags) else self.run()

    def _partitions(self, layout: bytes | None, stored: bytes | None) -> int:
        """The number is written before the layout: who finds a layout without it has one partition, from the times
        before there could be more."""
        wanted = self._terms.partitions
        there = int(stored) if stored else 1 if layout else 0
        if there and wanted and there != wanted:
            raise EngineUnsuitable(
                f"The engine holds jobs in {there} partition{'s' if there > 1 else ''}, and the setting says {wanted}. "
                f"The number is fixed when a namespace is first used: set partitions to {there} or leave it out, "
                "or use another namespace."
            )
        if there > PARTITIONS_MAX:
            raise EngineUnsuitable(f"The engine says it has {there} partitions; there are {PARTITIONS_MAX} at most.")
        return there or wanted or self._topology.default_partitions

    def _check_layouts(self, tags: Sequence[str]) -> None:
        for tag in tags:
            (layout,) = self._ask(tag, [("HGET", root_of(self._terms.namespace, tag), "layout")])
            if layout is not None and int(layout) != LAYOUT:
                raise EngineUnsuitable(
                    f"The engine holds jobs in layout {int(layout)}, and this version of Windlass reads layout "
                    f"{LAYOUT}: use the version that wrote them, or another namespace."
                )

    def _examine(self, tag: str) -> Deployment:
        wanted = permissions.required_permissions(self._topology.has_slots)
        key = root_of(self._terms.namespace, tag)
        *replies, answer = self._ask(tag, [*QUERIES, permissions.check_command(key, wanted)], may_lack=("INFO", "CONFIG"))
        lacking = permissions.read_denied(answer, wanted)
        permissions.check(self._user, key, lacking)
        if isinstance(replies[0], EngineReplyError):  # renamed, perhaps: no right would help
            raise replies[0]
        found = check_requirements(
            replies, allow_eviction=self._terms.allow_eviction, is_cluster_expected=self._topology.has_slots
        )
        if any(right.name == "function|load" for right in lacking):
            self._check_functions(tag, key)
        return found._replace(user=self._user, lacking=tuple(lacking))

    def _check_functions(self, tag: str, key: str) -> None:
        """A user that may not load our functions needs an engine that has them. Any of them tells."""
        try:
            self._ask(tag, [("FCALL", library().function("limits"), 1, key, 0)])
        except EngineReplyError as error:
            check_library_missing(error)
            raise permissions.functions_missing_error(self._user) from error

    def _one_tag_per_node(self, tags: Sequence[str]) -> list[str]:
        return list({self._topology.route(slot_of(tag)).find_sync(): tag for tag in tags}.values())

    def _mark(self, tags: Sequence[str]) -> bool:
        """False when somebody else has begun this deployment with another number of partitions meanwhile."""
        marks = ["layout", *(["test"] if self._terms.is_test else [])]
        values = {"layout": str(LAYOUT), "test": "1"}
        stored = self._set_missing("0", {"partitions": str(len(tags))})[0]
        if int(stored) != len(tags):
            return False
        for tag in reversed(tags):  # partition 0 last: it says that all are there
            self._set_missing(tag, {mark: values[mark] for mark in marks})
        return True

    def _set_missing(self, tag: str, wanted: dict[str, str]) -> list[bytes]:
        """What is there is only read: an engine whose memory is full can still be opened, and drained."""
        root = root_of(self._terms.namespace, tag)
        reading = ("HMGET", root, *wanted)
        (found,) = self._ask(tag, [reading])
        if None in found:
            *_, found = self._ask(tag, [*(("HSETNX", root, mark, value) for mark, value in wanted.items()), reading])
        return found  # type: ignore[no-any-return]

    def _ask(self, tag: str, commands: Sequence[CommandArgs], may_lack: Sequence[str] = ()) -> list[Any]:
        """All replies. The refusal of a command that the user may lack stands among them; any other is raised."""
        self.route = self._topology.route(slot_of(tag))
        self.node = None
        self.node = self.route.find_sync()
        replies = self._connected(self.node).pipeline(commands)
        for command, reply in zip(commands, replies, strict=True):
            if isinstance(reply, EngineReplyError) and command[0] not in may_lack:
                permissions.raise_explained(reply, self._user)
        return replies

    def _connected(self, node: Endpoint) -> SyncConnection:
        found = self._connections.get(node)
        if found is None:
            found = self._connections[node] = SyncConnection.open(node, self._connect_limit_s)
            if self.route.check is not None:
                self.route.check_node(node, found.call(*self.route.check))
        return found
