"""Bootstrap of a deployment: check every node and the stored layout before the first write, then mark the namespace."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from windlass.core.errors import EngineUnsuitable, WindlassError
from windlass.core.ids import PARTITIONS_MAX
from windlass.core.job import Durability
from windlass.core.namespace.format import FIRST, NamespaceFormat
from windlass.core.partition import hash_tags, slot_of
from windlass.store.connection.connection import CONNECT_LIMIT_S, CommandArgs, EngineReplyError
from windlass.store.connection.endpoint import Endpoint
from windlass.store.connection.replies import is_command_unknown
from windlass.store.connection.retry_policy import RetryPolicy
from windlass.store.connection.sync_connection import SyncConnection
from windlass.store.keys import root_of
from windlass.store.scripts import library

from . import permissions
from .namespace_format import check_format, format_query
from .requirements import QUERIES, Deployment, check_requirements, combine_nodes, reason_for_scripts
from .topology import NodeRoute, Topology


class DeploymentOptions(NamedTuple):
    """Requirements for a deployment, and the marks for a new one."""

    namespace: str
    partitions: int  # 0: the stored number; for a new namespace the default of its topology
    durability: Durability
    durable_wait_ms: int
    allow_eviction: bool
    is_test: bool
    is_managed: bool = False  # the service makes each write durable, as its operator declares


def open_deployment(
    topology: Topology, options: DeploymentOptions, patience_s: float, before_connect: Callable[[], None] | None = None
) -> Deployment:
    """Check and mark a deployment. Retry for `patience_s` while the engine cannot be reached."""
    policy: RetryPolicy | None = None
    while True:
        bootstrap = Bootstrap(topology, options, min(CONNECT_LIMIT_S, patience_s))
        try:
            if before_connect is not None:
                before_connect()
            with contextlib.closing(bootstrap):
                return bootstrap.run()
        except WindlassError as problem:
            policy = policy or RetryPolicy(bootstrap.route, patience_s)
            pause_s = policy.pause_s_after(problem)
            bootstrap.route.handle_problem(problem, bootstrap.node)
        time.sleep(pause_s)


class Bootstrap:
    """Check of all nodes, with one connection per node."""

    def __init__(self, topology: Topology, options: DeploymentOptions, connect_limit_s: float) -> None:
        self._topology = topology
        self._options = options
        self._connect_limit_s = connect_limit_s
        self._connections: dict[Endpoint, SyncConnection] = {}
        # Route and node of the last query: the place of a problem.
        self.route: NodeRoute = topology.route(slot_of("0"))
        self.node: Endpoint | None = None

    @property
    def _user(self) -> str:
        """User of the last queried node."""
        return (self.node.username if self.node else None) or "default"

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    def run(self) -> Deployment:
        # Check a single node first: an unsuitable engine might not even answer about its keys.
        examined = [] if self._topology.has_slots else [self._examine("0")]
        root = root_of(self._options.namespace, "0")
        (stored,) = self._query("0", [("HMGET", root, "layout", "partitions")])
        partitions = self._partitions(*stored)
        tags = hash_tags(partitions)
        formats = [self._check_format(tag) for tag in tags]
        examined = examined or [self._examine(tag) for tag in self._one_tag_per_node(tags)]
        found = combine_nodes(examined, partitions, is_test=self._options.is_test)
        found = found._replace(format=max(formats))
        found.command_for(self._options.durability, self._options.durable_wait_ms)
        return found if self._mark(tags) else self.run()

    def _partitions(self, layout: bytes | None, stored: bytes | None) -> int:
        """Return the number of partitions.

        It is written before the layout. A layout without it was written by a version that had one partition only.
        """
        wanted = self._options.partitions
        existing = int(stored) if stored else 1 if layout else 0
        if existing and wanted and existing != wanted:
            raise EngineUnsuitable(
                f"The engine holds jobs in {existing} partition{'s' if existing > 1 else ''}, but the setting says "
                f"{wanted}. The number is fixed when a namespace is first used: set partitions to {existing}, leave it "
                "out, or use another namespace."
            )
        if existing > PARTITIONS_MAX:
            raise EngineUnsuitable(f"The engine reports {existing} partitions; at most {PARTITIONS_MAX} are possible.")
        return existing or wanted or self._topology.default_partitions

    def _check_format(self, tag: str) -> NamespaceFormat:
        (reply,) = self._query(tag, [format_query(root_of(self._options.namespace, tag))])
        return check_format(self._options.namespace, reply)

    def _examine(self, tag: str) -> Deployment:
        wanted = permissions.required_permissions(self._topology.has_slots)
        key = root_of(self._options.namespace, tag)
        *replies, answer = self._query(
            tag, [*QUERIES, permissions.check_command(key, wanted)], may_lack=("INFO", "CONFIG")
        )
        restrictions = permissions.read_restrictions(answer, wanted)
        lacking = restrictions.denied
        permissions.check(self._user, key, lacking)
        if isinstance(replies[0], EngineReplyError):  # perhaps renamed: no permission would help
            raise replies[0]
        found = check_requirements(
            replies,
            allow_eviction=self._options.allow_eviction,
            is_cluster_expected=self._topology.has_slots,
            is_managed=self._options.is_managed,
        )
        found = found._replace(user=self._user, lacking=lacking)
        reason = reason_for_scripts(restrictions, lambda: self._has_functions(tag, key))
        if reason:
            found.check_may_call_scripts()
            found = found._replace(calls_by="scripts", scripts_because=reason)
        return found

    def _has_functions(self, tag: str, key: str) -> bool:
        """Tell whether the engine has our functions. One function is enough."""
        try:
            self._query(tag, [("FCALL", library().function("limits"), 1, key, 0)])
        except EngineReplyError as error:
            if "Function not found" in str(error) or is_command_unknown(error, "FCALL"):
                return False
            raise
        return True

    def _one_tag_per_node(self, tags: Sequence[str]) -> list[str]:
        return list({self._topology.route(slot_of(tag)).find_sync(): tag for tag in tags}.values())

    def _mark(self, tags: Sequence[str]) -> bool:
        """Mark the namespace. Return False if another process has marked it with another number of partitions."""
        marks = ["layout", *(["test"] if self._options.is_test else [])]
        values = {"layout": str(FIRST), "test": "1"}
        stored = self._set_missing("0", {"partitions": str(len(tags))})[0]
        if int(stored) != len(tags):
            return False
        for tag in reversed(tags):  # partition 0 last: its mark means that all are marked
            self._set_missing(tag, {mark: values[mark] for mark in marks})
        return True

    def _set_missing(self, tag: str, wanted: dict[str, str]) -> list[bytes]:
        """Set the missing fields and return all. Present fields are only read, so a full engine can still be opened."""
        root = root_of(self._options.namespace, tag)
        reading = ("HMGET", root, *wanted)
        (found,) = self._query(tag, [reading])
        if None in found:
            *_, found = self._query(tag, [*(("HSETNX", root, mark, value) for mark, value in wanted.items()), reading])
        return found  # type: ignore[no-any-return]

    def _query(self, tag: str, commands: Sequence[CommandArgs], may_lack: Sequence[str] = ()) -> list[Any]:
        """Return all replies. Refusals of commands in `may_lack` are values among them; any other is raised."""
        self.route = self._topology.route(slot_of(tag))
        self.node = None
        self.node = self.route.find_sync()
        replies = self._connection_to(self.node).pipeline(commands)
        for command, reply in zip(commands, replies, strict=True):
            if isinstance(reply, EngineReplyError) and command[0] not in may_lack:
                permissions.raise_explained(reply, self._user)
        return replies

    def _connection_to(self, node: Endpoint) -> SyncConnection:
        found = self._connections.get(node)
        if found is None:
            found = self._connections[node] = SyncConnection.open(node, self._connect_limit_s)
            if self.route.check is not None:
                self.route.check_node(node, found.call(*self.route.check))
        return found
