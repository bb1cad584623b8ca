"""One process of a deployment: its log is kept, and it can be killed, suspended and started again at any time.

No such process outlives this one."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

READY_LIMIT_S = 240.0  # a busy machine is slow
STOP_LIMIT_S = 120.0
POLL_S = 0.02
# Of util-linux: the kernel kills the process when this one ends, however it ends.
DIE_WITH_PARENT = [found, "--pdeathsig", "KILL", "--"] if (found := shutil.which("setpriv")) else []


class ManagedProcess:
    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str],
        ready_text: str = "",  # in its log when it is ready
    ) -> None:
        self.name = name
        self.log_path = folder / f"{name}.log"
        self._command = list(command)
        self._environment = dict(environment)
        self._ready_text = ready_text.encode()
        self._process: subprocess.Popen[bytes] | None = None
        self._log_from = 0

    def set_environment(self, environment: Mapping[str, str]) -> None:
        """Change the environment of later starts."""
        self._environment = dict(environment)

    @property
    def environment(self) -> Mapping[str, str]:
        return self._environment

    def start(self) -> None:
        self._log_from = self.log_path.stat().st_size if self.log_path.exists() else 0
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [*DIE_WITH_PARENT, *self._command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
            )

    def wait_ready(self) -> None:
        give_up_at = time.monotonic() + READY_LIMIT_S
        while self._ready_text not in self.read_log():
            if not self.is_alive or time.monotonic() > give_up_at:
                log = self.read_log().decode(errors="replace")[-3000:]
                raise RuntimeError(f"{self.name} does not start. The end of its log:\n{log}")
            time.sleep(POLL_S)

    def read_log(self) -> bytes:
        """Return the log since the last start."""
        with self.log_path.open("rb") as log:
            log.seek(self._log_from)
            return log.read()

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} was never started"
        return self._process.pid

    def signal(self, number: signal.Signals) -> None:
        if self.is_alive:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the process and its children, as a host that loses power does."""
        if self._process is None:
            return
        children = _children_of(self.pid)
        self.signal(signal.SIGKILL)
        self._process.wait()
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def kill_child_with(self, path: Path) -> bool:
        """Kill the child that has a file open, and return whether there was one. Its parent continues."""
        children = _children_of(self.pid) if self.is_alive else []
        found = [pid for pid in children if _has_open(pid, path)]
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return bool(found)

    def request_stop(self) -> None:
        """Send SIGTERM. Call this once: a second SIGTERM may end the process at once."""
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)

    def wait(self) -> int:
        """Wait for the end and return the exit code. A process that does not end is killed: -9."""
        if self._process is None:
            return 0
        try:
            return self._process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return -9

    def stop(self) -> int:
        self.request_stop()
        return self.wait()


def _children_of(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _has_open(pid: int, path: Path) -> bool:
    with contextlib.suppress(OSError):  # it has just ended
        return any(link.readlink() == path.absolute() for link in Path(f"/proc/{pid}/fd").iterdir())
    return False
