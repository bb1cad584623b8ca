"""Engines under test with their faults: standalone, without functions, in a network namespace, embedded, behind
Sentinel, and a cluster.

They are the test suite's own processes. Every one of them ends with this process."""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from windlass.store.connection.endpoint import Endpoint
from windlass.store.connection.sync_connection import SyncConnection
from windlass.store.embedded.supervisor import SOCKET, STATE, is_ready, send_command

# `python -m faults` may be started from another folder.
sys.path.append(str(Path(__file__).resolve().parents[1]))
from tests.support.engine_process import engine_binary
from tests.topologies.nodes import ClusterProcesses, Node, SentinelProcesses

from .cable import Cable  # isort: skip
from .power_loss.volatile_disk import VolatileDisk, describe  # isort: skip
from .power_loss.volatile_disk import unavailable_reason as power_unavailable_reason  # isort: skip

LIMIT_S = 240.0
WITH_AOF = ("--appendonly", "yes", "--appendfsync")
# A write beyond a limit of file sizes fails, as on a full disk, instead of killing the process.
SHELL = ("/bin/sh", "-c", "trap '' XFSZ; exec \"$@\"", "engine")


class Engine(Protocol):
    """The interface of an engine for faults and deployments, wherever it runs."""

    topology: str
    url: str

    def start(self) -> None: ...
    def close(self) -> None: ...
    def send_command(self, *command: str | int) -> Any: ...
    def kill(self, rng: random.Random) -> None: ...
    def revive(self) -> None: ...
    def freeze(self, rng: random.Random) -> Callable[[], None]: ...

    @property
    def pids(self) -> dict[str, int]: ...

    @property
    def logs(self) -> list[Path]: ...


class StandaloneNode(Node):
    disk: VolatileDisk | None = None  # None: a power cut cannot be simulated here

    def _environment(self) -> dict[str, str]:
        environment = super()._environment()
        return environment | (self.disk.environment(environment.get("LD_PRELOAD", "")) if self.disk else {})

    def lose_power(self, rng: random.Random) -> str:
        """Kill the engine and drop what was not synced. Where blocks of zeros are left, cut them off as docs/engines.md
        says: the engine does not start with them."""
        assert self.disk is not None, "an engine on a volatile disk"
        self.kill()
        files = self.directory / "appendonlydir"
        tears = self.disk.cut(files, rng, may_leave_zeros=True)
        if any(tear.has_zeros for tear in tears):
            _cut_off_zeros(engine_binary(self._engine), files)
        return describe(tears)

    @property
    def has_exited(self) -> bool:
        """Whether the process has ended without being stopped from here."""
        return self._process is not None and self._process.poll() is not None

    def _command(self) -> list[str]:
        return [*SHELL, engine_binary(self._engine), *self._arguments()]


class StandaloneEngine:
    """One engine with an append-only file."""

    topology = "standalone"

    def __init__(self, fsync: str = "always") -> None:
        self.node = StandaloneNode(tcp=True, config=(*WITH_AOF, fsync))
        self.fsync = fsync
        if not power_unavailable_reason():
            self.node.disk = VolatileDisk(self.node.directory / "synced")

    def start(self) -> None:
        self.node.start()
        self.url = self.node.url

    def close(self) -> None:
        self.node.remove()

    def send_command(self, *command: str | int) -> Any:
        return self.node.send_command(*command)

    def kill(self, rng: random.Random) -> None:
        self.node.kill()

    def lose_power(self, rng: random.Random) -> str:
        return self.node.lose_power(rng)

    def revive(self) -> None:
        if not self.node.is_running:
            self.node.start()

    def freeze(self, rng: random.Random) -> Callable[[], None]:
        self.node.freeze()
        return self.node.thaw

    def limit_file_size(self, file_bytes: int | None) -> None:
        """Let no file of the engine grow beyond this size; None: no limit."""
        most = resource.RLIM_INFINITY if file_bytes is None else file_bytes
        resource.prlimit(self.node.pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))

    @property
    def pids(self) -> dict[str, int]:
        return {"engine": self.node.pid} if self.node.is_running else {}

    @property
    def logs(self) -> list[Path]:
        return [self.node.log_path]


class EngineWithoutFunctions(StandaloneEngine):
    """One engine with an append-only file whose user may not call functions."""

    topology = "scripts"

    def __init__(self, fsync: str = "always") -> None:
        self.node = StandaloneNode("scripts", tcp=True, config=(*WITH_AOF, fsync))
        self.fsync = fsync


class EngineOfTwoVersions(StandaloneEngine):
    """One engine with an append-only file, used by processes of the previous and of the present version."""

    topology = "versions"


class NamespacedNode(StandaloneNode):
    """An engine in a network namespace of its own. Local processes can also reach it by its unix socket."""

    def __init__(self, fsync: str) -> None:
        super().__init__(tcp=True, config=(*WITH_AOF, fsync, "--protected-mode", "no"))
        self.cable = Cable()

    def _arguments(self) -> list[str]:
        return [*super()._arguments(), "--bind", self.cable.far_address]

    def _command(self) -> list[str]:
        return self.cable.command_inside(super()._command())


class NamespacedEngine(StandaloneEngine):
    """One engine with an append-only file, at the far end of a cable."""

    topology = "namespace"

    def __init__(self, fsync: str = "always") -> None:
        self.node = NamespacedNode(fsync)
        self.cable = self.node.cable
        self.fsync = fsync

    def start(self) -> None:
        self.cable.create()
        self.node.start()
        self.url = f"redis://{self.cable.far_address}:{self.node.port}/0"

    def close(self) -> None:
        super().close()
        self.cable.remove()

    def revive(self) -> None:
        self.cable.restore()
        super().revive()


class EmbeddedEngineProcess:
    """The engine of a data directory. Its users start it; its supervisor starts it again."""

    topology = "embedded"

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.url = f"unix://{data_dir / SOCKET}"
        self._last_pid = 0
        self._disk = None if power_unavailable_reason() else VolatileDisk(data_dir / "synced")

    @property
    def environment(self) -> dict[str, str]:
        """Environment of the processes that start the engine."""
        return self._disk.environment(os.environ.get("LD_PRELOAD", "")) if self._disk else {}

    def start(self) -> None:
        """Do nothing: the first server starts the engine."""

    def close(self) -> None:
        """Wait until the engine stops after its last user. Kill it if it is frozen or orphaned."""
        give_up_at = time.monotonic() + 10
        while (pid := self._pid()) and time.monotonic() < give_up_at:
            time.sleep(0.1)
        if pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def send_command(self, *command: str | int) -> Any:
        self._wait_ready()
        endpoint = Endpoint(unix_path=str(self.data_dir / SOCKET))
        with contextlib.closing(SyncConnection.open(endpoint)) as connection:
            return connection.call(*command)

    def kill(self, rng: random.Random) -> None:
        self._last_pid = self._wait_ready()
        os.kill(self._last_pid, signal.SIGKILL)

    def lose_power(self, rng: random.Random) -> str:
        """Kill the engine and drop what was not synced, before its supervisor starts it again."""
        assert self._disk is not None, "an engine on a volatile disk"
        self._last_pid = self._wait_ready()
        supervisor = int(self._state()["keeper_pid"])
        os.kill(supervisor, signal.SIGSTOP)
        try:
            os.kill(self._last_pid, signal.SIGKILL)
            while _is_alive(self._last_pid):
                time.sleep(0.005)
            return describe(self._disk.cut(self.data_dir / "appendonlydir", rng, may_leave_zeros=False))
        finally:
            os.kill(supervisor, signal.SIGCONT)

    def revive(self) -> None:
        """Wait until the supervisor has started the engine."""
        self._wait_ready()

    def _wait_ready(self) -> int:
        """Wait until the engine answers and return its pid. While all its users are dead, it does not run."""
        give_up_at = time.monotonic() + LIMIT_S
        while not (pid := self._pid()) or pid == self._last_pid or not self._answers():
            if time.monotonic() > give_up_at:
                raise RuntimeError(f"The embedded engine did not come back within {LIMIT_S:g} s.")
            time.sleep(0.05)
        return pid

    def _answers(self) -> bool:
        return is_ready(send_command(str(self.data_dir / SOCKET), b"PING"))

    def freeze(self, rng: random.Random) -> Callable[[], None]:
        pid = self._wait_ready()
        os.kill(pid, signal.SIGSTOP)
        return lambda: os.kill(pid, signal.SIGCONT)

    def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads((self.data_dir / STATE).read_text())
        return state

    def _pid(self) -> int:
        try:
            pid = int(self._state().get("engine_pid") or 0)
            return pid if pid and _is_alive(pid) else 0
        except (OSError, ValueError):
            return 0

    @property
    def pids(self) -> dict[str, int]:
        return {"engine": pid} if (pid := self._pid()) else {}

    @property
    def logs(self) -> list[Path]:
        return list(self.data_dir.glob("*.log"))


class _GroupEngine:
    """Several nodes, of which primaries can be lost."""

    group: Any

    def start(self) -> None:
        self.group.__enter__()
        self.url = self.group.url

    def close(self) -> None:
        self.group.__exit__(None, None, None)

    def revive(self) -> None:
        self.group.restore()

    @property
    def pids(self) -> dict[str, int]:
        return {f"node-{number}": node.pid for number, node in enumerate(self.group.nodes) if node.is_running}

    @property
    def logs(self) -> list[Path]:
        return [node.log_path for node in self.group.nodes]


class SentinelEngine(_GroupEngine):
    """A primary and two replicas behind three sentinels."""

    topology = "sentinel"

    def __init__(self) -> None:
        self.group = SentinelProcesses()

    def send_command(self, *command: str | int) -> Any:
        return self.group.primary.send_command(*command)

    def primary(self, rng: random.Random) -> Node:
        return self.group.primary  # type: ignore[no-any-return]

    def kill(self, rng: random.Random) -> None:
        self.primary(rng).kill()

    def freeze(self, rng: random.Random) -> Callable[[], None]:
        node = self.group.primary
        node.freeze()
        return node.thaw  # type: ignore[no-any-return]

    def fail_over(self, rng: random.Random) -> None:
        self.group.fail_over(*rng.choice([(), ("COORDINATED",)]))


class ClusterEngine(_GroupEngine):
    """Three primaries, each with a replica."""

    topology = "cluster"

    def __init__(self) -> None:
        self.group = ClusterProcesses()

    def send_command(self, *command: str | int) -> Any:
        """Send the command to every primary and return the last answer."""
        answers = [node.send_command(*command) for node in self.group.primaries]
        return answers[-1]

    def primary(self, rng: random.Random) -> Node:
        return rng.choice(self.group.primaries)  # type: ignore[no-any-return]

    def kill(self, rng: random.Random) -> None:
        self.primary(rng).kill()

    def freeze(self, rng: random.Random) -> Callable[[], None]:
        node = rng.choice(self.group.primaries)
        node.freeze()
        return node.thaw  # type: ignore[no-any-return]

    def fail_over(self, rng: random.Random) -> None:
        replicas = [node for node in self.group.nodes if node.is_running and not node.is_primary]
        rng.choice(replicas).send_command("CLUSTER", "FAILOVER")


def _cut_off_zeros(server: str, files: Path) -> None:
    for path in sorted(files.glob("*.incr.aof")):
        command = ["valkey-check-aof", "--fix", str(path)]
        subprocess.run(command, executable=server, input=b"y\n", capture_output=True, check=True, timeout=LIMIT_S)


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def create_engine(topology: str, folder: Path) -> Engine:
    if topology == "embedded":
        return EmbeddedEngineProcess(folder)
    engines: dict[str, Callable[[], Engine]] = {
        "standalone": StandaloneEngine,
        "namespace": NamespacedEngine,
        "scripts": EngineWithoutFunctions,
        "versions": EngineOfTwoVersions,
        "sentinel": SentinelEngine,
        "cluster": ClusterEngine,
    }
    return engines[topology]()
