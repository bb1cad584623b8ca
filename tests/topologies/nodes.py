"""Real clusters and Sentinel groups as child processes. Each node is an engine on loopback."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

from tests.support.engine_process import EngineProcess, admin_endpoint, free_port
from windlass.core.partition import SLOTS, hash_tags, slot_of
from windlass.store.connection.connection import ConnectionLost, EngineReplyError
from windlass.store.connection.endpoint import Endpoint
from windlass.store.connection.sync_connection import SyncConnection

NODE_TIMEOUT_MS = 1_000
DOWN_AFTER_MS = 700
WATCH_OPTIONS = {"down-after-milliseconds": DOWN_AFTER_MS, "failover-timeout": 3_000}  # of a sentinel
QUORUM = 2
READY_LIMIT_S = 20.0
VOLATILE = ("--appendonly", "no", "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1")


def _is_true(condition: Callable[[], bool]) -> bool:
    """Return the condition; False if the connection is lost: a node that changes its role closes its connections."""
    try:
        return condition()
    except ConnectionLost:
        return False


def until(condition: Callable[[], bool], what: str) -> None:
    give_up_at_s = time.monotonic() + READY_LIMIT_S
    while not _is_true(condition):
        assert time.monotonic() < give_up_at_s, f"{what}: not within {READY_LIMIT_S:g} s"
        time.sleep(0.02)


class Node(EngineProcess):
    """Engine on TCP that takes commands."""

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint("127.0.0.1", self.port)

    def send_command(self, *command: str | bytes | int) -> Any:
        with contextlib.closing(
            SyncConnection.open(admin_endpoint(Endpoint(unix_path=str(self.socket_path))))
        ) as connection:
            return connection.call(*command)

    def info(self, section: str) -> dict[str, str]:
        text = self.send_command("INFO", section).decode()
        return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)

    @property
    def is_running(self) -> bool:
        return self._process is not None

    @property
    def is_primary(self) -> bool:
        return self.is_running and self.send_command("ROLE")[0] == b"master"

    @property
    def has_replica(self) -> bool:
        return "state=online" in self.info("replication").get("slave0", "")


class ClusterNode(Node):
    def __init__(self) -> None:
        super().__init__(tcp=True)
        self._choose_bus_port()

    def _choose_bus_port(self) -> None:
        self.bus_port = free_port()
        self._config = (
            *VOLATILE,
            *("--cluster-enabled", "yes", "--cluster-node-timeout", str(NODE_TIMEOUT_MS)),
            *("--cluster-port", str(self.bus_port), "--cluster-allow-replica-migration", "no"),
            *("--cluster-replica-validity-factor", "0"),
        )

    def _choose_other_ports(self) -> None:
        super()._choose_other_ports()
        self._choose_bus_port()

    @property
    def id(self) -> str:
        return str(self.send_command("CLUSTER", "MYID"), "ascii")


class ClusterProcesses:
    """Primaries with equal shares of the slots, each with one replica (or none)."""

    def __init__(self, primaries: int = 3, *, has_replicas: bool = True) -> None:
        self.nodes = [ClusterNode() for _ in range(primaries * (2 if has_replicas else 1))]
        self._shares = primaries
        self._has_replicas = has_replicas

    def __enter__(self) -> Self:
        for node in self.nodes:
            node.start()
        bounds = [SLOTS * at // self._shares for at in range(self._shares + 1)]
        for at, node in enumerate(self.nodes[: self._shares]):
            node.send_command("CLUSTER", "ADDSLOTSRANGE", bounds[at], bounds[at + 1] - 1)
        for at, node in enumerate(self.nodes):
            node.send_command("CLUSTER", "SET-CONFIG-EPOCH", at + 1)
            self.nodes[0].send_command("CLUSTER", "MEET", "127.0.0.1", node.port, node.bus_port)
        until(lambda: all(self._knows_all(node) for node in self.nodes), "the nodes know each other")
        for at, node in enumerate(self.nodes[self._shares :]):
            node.send_command("CLUSTER", "REPLICATE", self.nodes[at].id)
        self.wait_healthy()
        return self

    def __exit__(self, *_exc: object) -> None:
        for node in self.nodes:
            node.remove()

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def primary_of(self, slot: int) -> ClusterNode:
        for first, last, primary, *_ in self._any_node().send_command("CLUSTER", "SLOTS"):
            if first <= slot <= last:
                return next(node for node in self.nodes if node.port == primary[1])
        raise AssertionError(f"no node serves slot {slot}")

    def primary_of_partition(self, partition: int, partitions: int = 16) -> ClusterNode:
        return self.primary_of(slot_of(hash_tags(partitions)[partition]))

    def replica_of(self, primary: ClusterNode) -> ClusterNode:
        (line,) = self._any_node().send_command("CLUSTER", "REPLICAS", primary.id)
        return next(node for node in self.nodes if f":{node.port}@" in line.decode())

    @property
    def primaries(self) -> list[ClusterNode]:
        return [node for node in self.nodes if node.is_primary]

    @contextlib.contextmanager
    def patient(self) -> Iterator[None]:
        """Raise the failure timeout, so that a slow node does not count as dead during a planned change."""
        for node in self.nodes:
            node.send_command("CONFIG", "SET", "cluster-node-timeout", 15_000)
        try:
            yield
        finally:
            for node in self.nodes:
                node.send_command("CONFIG", "SET", "cluster-node-timeout", NODE_TIMEOUT_MS)

    def restore(self) -> None:
        """Start killed nodes, and wait until the cluster is healthy. Nodes may have other roles than at the start."""
        for node in self.nodes:
            if not node.is_running:
                node.start()
        self.wait_healthy()

    def wait_healthy(self) -> None:
        until(lambda: all(node.info("cluster") and self._is_ok(node) for node in self.nodes), "the cluster is up")
        if self._has_replicas:
            until(
                lambda: len(self.primaries) == self._shares and all(node.has_replica for node in self.primaries),
                "every primary has its replica",
            )

    def _any_node(self) -> ClusterNode:
        return next(node for node in self.nodes if node.is_running)

    def _knows_all(self, node: ClusterNode) -> bool:
        text = node.send_command("CLUSTER", "NODES").decode()
        return text.count("connected") == len(self.nodes) and "handshake" not in text

    def _is_ok(self, node: ClusterNode) -> bool:
        lines = node.send_command("CLUSTER", "NODES").decode().splitlines()
        is_whole = not any("fail" in line.split(" ")[2] for line in lines) and len(lines) == len(self.nodes)
        return is_whole and b"cluster_state:ok" in node.send_command("CLUSTER", "INFO")


class SentinelNode(Node):
    def __init__(self, watched: Node, service: str, password: str | None) -> None:
        super().__init__(tcp=True)
        self._service = service
        self._lines = [
            f"port {self.port}",
            "bind 127.0.0.1",
            f"dir {self.directory}",
            f"unixsocket {self.socket_path}",
            f"sentinel monitor {service} 127.0.0.1 {watched.port} {QUORUM}",
            *(f"sentinel {option} {service} {value}" for option, value in WATCH_OPTIONS.items()),
            *([f"requirepass {password}", f"sentinel sentinel-pass {password}"] if password else []),
        ]
        self._password = password

    def _arguments(self) -> list[str]:
        file = self.directory / "sentinel.conf"
        if not file.exists():  # the sentinel itself rewrites it
            file.write_text("\n".join(self._lines) + "\n")
        return [str(file), "--sentinel"]

    def send_command(self, *command: str | bytes | int) -> Any:
        endpoint = Endpoint(unix_path=str(self.socket_path), password=self._password)
        with contextlib.closing(SyncConnection.open(endpoint)) as connection:
            return connection.call(*command)

    def monitor(self, watched: Node) -> None:
        """Watch this primary, after `SENTINEL REMOVE`."""
        self.send_command("SENTINEL", "MONITOR", self._service, "127.0.0.1", watched.port, QUORUM)
        for option, value in WATCH_OPTIONS.items():
            self.send_command("SENTINEL", "SET", self._service, option, value)


class SentinelProcesses:
    """One primary, two replicas, three sentinels with a password of their own."""

    service = "jobs"
    password = "open-sesame"  # noqa: S105 (an example)

    def __init__(self) -> None:
        config = (*VOLATILE, "--replica-priority", "100")
        self.nodes = [Node(tcp=True, config=config) for _ in range(3)]
        self.sentinels: list[SentinelNode] = []

    def __enter__(self) -> Self:
        for node in self.nodes:
            node.start()
        self._replicate(self.nodes[0])
        self.sentinels = [SentinelNode(self.nodes[0], self.service, self.password).start() for _ in range(3)]
        self.wait_healthy()
        return self

    def __exit__(self, *_exc: object) -> None:
        for node in (*self.sentinels, *self.nodes):
            node.remove()

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self.sentinels)
        return f"redis+sentinel://{hosts}/{self.service}/0?sentinel_password={self.password}"

    @property
    def primary(self) -> Node:
        address = self._state()
        return next(node for node in self.nodes if node.port == int(address[b"port"]))

    def _state(self, at: int = 0) -> dict[bytes, bytes]:
        flat: Sequence[bytes] = self.sentinels[at].send_command("SENTINEL", "MASTER", self.service)
        return dict(zip(flat[::2], flat[1::2], strict=True))

    @contextlib.contextmanager
    def patient(self) -> Iterator[None]:
        """Raise the failure timeout, so that a slow node does not count as dead during a planned change."""
        self._set_down_after(15_000)
        try:
            yield
        finally:
            self._set_down_after(DOWN_AFTER_MS)

    def _set_down_after(self, down_after_ms: int) -> None:
        for sentinel in self.sentinels:
            sentinel.send_command("SENTINEL", "SET", self.service, "down-after-milliseconds", down_after_ms)

    def fail_over(self, *how: str) -> None:
        """Start a planned failover, as soon as the sentinel has recent data from a replica."""

        def is_begun() -> bool:
            try:
                self.sentinels[0].send_command("SENTINEL", "FAILOVER", self.service, *how)
            except EngineReplyError as error:
                if error.kind == "NOGOODSLAVE":
                    return False
                raise
            return True

        until(is_begun, "a replica that can be promoted")

    def restore(self) -> None:
        """Start killed nodes as replicas, and wait until the group is healthy. No data is lost."""
        for node in self.nodes:
            if not node.is_running:
                node.start()
                node.send_command(
                    "REPLICAOF", "127.0.0.1", self.primary.port
                )  # the sentinels would do so only after 10 s
        self.wait_healthy()

    def reset(self) -> None:
        """Start killed nodes, assign the roles, and let the sentinels begin again. By themselves they demote a former
        primary, and find a replica that came back, only after 10 s. Data may be lost."""
        primary = self.primary
        if all(node.is_running and node.is_primary == (node is primary) for node in self.nodes):
            self.wait_healthy()
            return
        for sentinel in self.sentinels:
            sentinel.send_command("SENTINEL", "REMOVE", self.service)
        for node in self.nodes:
            if not node.is_running:
                node.start()
        self._replicate(primary)
        for sentinel in self.sentinels:
            sentinel.monitor(primary)
        self.wait_healthy()

    def _replicate(self, primary: Node) -> None:
        primary.send_command("REPLICAOF", "NO", "ONE")
        for node in self.nodes:
            if node is not primary:
                node.send_command("REPLICAOF", "127.0.0.1", primary.port)
        until(lambda: primary.info("replication")["connected_slaves"] == "2", "two replicas")

    def wait_healthy(self) -> None:
        until(lambda: all(self._is_settled(at) for at in range(3)), "the sentinels agree")
        until(lambda: len([node for node in self.nodes if node.is_primary]) == 1, "one primary")
        until(lambda: self._synced_replicas() == 2, "two replicas that have all of it")

    def _synced_replicas(self) -> int:
        """Count the replicas in sync. A replica that is still receiving its data would be promoted without it."""
        primary = self.primary
        found = (node.info("replication") for node in self.nodes if node is not primary and node.is_running)
        return sum(
            info.get("master_link_status") == "up" and info.get("master_port") == str(primary.port) for info in found
        )

    def _is_settled(self, at: int) -> bool:
        state = self._state(at)
        counts = state[b"num-slaves"], state[b"num-other-sentinels"]
        return state[b"flags"] == b"master" and counts == (b"2", b"2") and state[b"port"] == self._state()[b"port"]
