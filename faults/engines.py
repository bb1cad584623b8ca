"""The engines under test, each with what can be done to it: one alone, one at the end of a cable, the embedded one, a
Sentinel group, a cluster. They are the test suite's own processes; every one of them ends with this process."""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from windlass.store.connection.endpoint import Endpoint
from windlass.store.connection.sync_connection import SyncConnection
from windlass.store.embedded.supervisor import SOCKET, STATE, send_command, is_ready

# `python -m faults` may be started from another folder.
sys.path.append(str(Path(__file__).resolve().parents[1]))
from tests.support.engine_process import _binary
from tests.topologies.nodes import ClusterProcesses, Node, SentinelProcesses

from .cable import Cable  # isort: skip

LIMIT_S = 240.0
WITH_AOF = ("--appendonly", "yes", "--appendfsync")
# A write beyond a limit on file sizes is an error of the write, as on a full disk, instead of the process's end.
SHELL = ("/bin/sh", "-c", "trap '' XFSZ; exec \"$@\"", "engine")


class Engine(Protocol):
    """What mischief and deployments know of an engine, wherever it runs."""

    topology: str
    url: str

    def start(self) -> None: ...
    def close(self) -> None: ...
    def ask(self, *command: str | int) -> Any: ...
    def kill(self, chance: random.Random) -> None: ...
    def revive(self) -> None: ...
    def freeze(self, chance: random.Random) -> Callable[[], None]: ...

    @property
    def pids(self) -> dict[str, int]: ...

    @property
    def logs(self) -> list[Path]: ...


class AloneNode(Node):
    @property
    def has_ended(self) -> bool:
        """By itself."""
        return self._process is not None and self._process.poll() is not None

    def _command(self) -> list[str]:
        return [*SHELL, _binary(self._engine), *self._arguments()]


class Alone:
    """One engine with an append-only file."""

    topology = "standalone"

    def __init__(self, fsync: str = "always") -> None:
        self.node = AloneNode(tcp=True, config=(*WITH_AOF, fsync))
        self.fsync = fsync

    def start(self) -> None:
        self.node.start()
        self.url = self.node.url

    def close(self) -> None:
        self.node.remove()

    def ask(self, *command: str | int) -> Any:
        return self.node.ask(*command)

    def kill(self, chance: random.Random) -> None:
        self.node.kill()

    def revive(self) -> None:
        if not self.node.is_running:
            self.node.start()

    def freeze(self, chance: random.Random) -> Callable[[], None]:
        self.node.freeze()
        return self.node.thaw

    def may_write(self, file_bytes: int | None) -> None:
        """No file of the engine grows beyond this; None: as far as they like."""
        most = resource.RLIM_INFINITY if file_bytes is None else file_bytes
        resource.prlimit(self.node.pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))

    @property
    def pids(self) -> dict[str, int]:
        return {"engine": self.node.pid} if self.node.is_running else {}

    @property
    def logs(self) -> list[Path]:
        return [self.node.log_path]


class ApartNode(AloneNode):
    """In a network of its own; those on this machine can reach it by its unix socket, too."""

    def __init__(self, fsync: str) -> None:
        super().__init__(tcp=True, config=(*WITH_AOF, fsync, "--protected-mode", "no"))
        self.cable = Cable()

    def _arguments(self) -> list[str]:
        return [*super()._arguments(), "--bind", self.cable.far_address]

    def _command(self) -> list[str]:
        return self.cable.inside(super()._command())


class Apart(Alone):
    """One engine with an append-only file, at the end of a cable."""

    topology = "namespace"

    def __init__(self, fsync: str = "always") -> None:
        self.node = ApartNode(fsync)
        self.cable = self.node.cable
        self.fsync = fsync

    def start(self) -> None:
        self.cable.lay()
        self.node.start()
        self.url = f"redis://{self.cable.far_address}:{self.node.port}/0"

    def close(self) -> None:
        super().close()
        self.cable.remove()

    def revive(self) -> None:
        self.cable.mend()
        super().revive()


class Embedded:
    """The engine of a data directory. Its users start it, and its supervisor restarts it."""

    topology = "embedded"

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.url = f"unix://{data_dir / SOCKET}"
        self._last_pid = 0

    def start(self) -> None:
        """The first server does."""

    def close(self) -> None:
        """It stops when its last user has left; one that was frozen or orphaned is ended here."""
        give_up_at = time.monotonic() + 10
        while (pid := self._pid()) and time.monotonic() < give_up_at:
            time.sleep(0.1)
        if pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def ask(self, *command: str | int) -> Any:
        self._present()
        with contextlib.closing(SyncConnection.open(Endpoint(unix_path=str(self.data_dir / SOCKET)))) as one:
            return one.call(*command)

    def kill(self, chance: random.Random) -> None:
        self._last_pid = self._present()
        os.kill(self._last_pid, signal.SIGKILL)

    def revive(self) -> None:
        """Wait until its supervisor has restarted it."""
        self._present()

    def _present(self) -> int:
        """Its pid, when it is there and answers: while all its users are dead, it is not."""
        give_up_at = time.monotonic() + LIMIT_S
        while (
            not (pid := self._pid()) or pid == self._last_pid or not is_ready(send_command(str(self.data_dir / SOCKET), b"PING"))
        ):
            if time.monotonic() > give_up_at:
                raise RuntimeError("the embedded engine does not come back")
            time.sleep(0.05)
        return pid

    def freeze(self, chance: random.Random) -> Callable[[], None]:
        pid = self._present()
        os.kill(pid, signal.SIGSTOP)
        return lambda: os.kill(pid, signal.SIGCONT)

    def _pid(self) -> int:
        try:
            pid = int(json.loads((self.data_dir / STATE).read_text()).get("engine_pid") or 0)
            return pid if pid and _is_alive(pid) else 0
        except (OSError, ValueError):
            return 0

    @property
    def pids(self) -> dict[str, int]:
        return {"engine": pid} if (pid := self._pid()) else {}

    @property
    def logs(self) -> list[Path]:
        return list(self.data_dir.glob("*.log"))


class _Group:
    """Several nodes, of which those that serve can be lost."""

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
        return {f"node-{at}": node.pid for at, node in enumerate(self.group.nodes) if node.is_running}

    @property
    def logs(self) -> list[Path]:
        return [node.log_path for node in self.group.nodes]


class Watched(_Group):
    """A primary and two replicas behind three sentinels."""

    topology = "sentinel"

    def __init__(self) -> None:
        self.group = SentinelProcesses()

    def ask(self, *command: str | int) -> Any:
        return self.group.primary.ask(*command)

    def serving(self, chance: random.Random) -> Node:
        return self.group.primary  # type: ignore[no-any-return]

    def kill(self, chance: random.Random) -> None:
        self.serving(chance).kill()

    def freeze(self, chance: random.Random) -> Callable[[], None]:
        node = self.group.primary
        node.freeze()
        return node.thaw  # type: ignore[no-any-return]

    def fail_over(self, chance: random.Random) -> None:
        self.group.fail_over(*chance.choice([(), ("COORDINATED",)]))


class Divided(_Group):
    """Three primaries, each with a replica."""

    topology = "cluster"

    def __init__(self) -> None:
        self.group = ClusterProcesses()

    def ask(self, *command: str | int) -> Any:
        """Every primary; the last one's answer."""
        answers = [node.ask(*command) for node in self.group.primaries]
        return answers[-1]

    def serving(self, chance: random.Random) -> Node:
        return chance.choice(self.group.primaries)  # type: ignore[no-any-return]

    def kill(self, chance: random.Random) -> None:
        self.serving(chance).kill()

    def freeze(self, chance: random.Random) -> Callable[[], None]:
        node = chance.choice(self.group.primaries)
        node.freeze()
        return node.thaw  # type: ignore[no-any-return]

    def fail_over(self, chance: random.Random) -> None:
        replicas = [node for node in self.group.nodes if node.is_running and not node.is_primary]
        chance.choice(replicas).ask("CLUSTER", "FAILOVER")


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def made(topology: str, folder: Path) -> Engine:
    if topology == "embedded":
        return Embedded(folder)
    kinds: dict[str, Callable[[], Engine]] = {
        "standalone": Alone,
        "namespace": Apart,
        "sentinel": Watched,
        "cluster": Divided,
    }
    return kinds[topology]()
