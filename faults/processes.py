"""One process of a deployment: its log is kept, it may be killed and stopped at any time, and it comes back as it
was. None of them outlives this one."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

READY_LIMIT_S = 240.0  # a machine that is busy with other things takes its time
STOP_LIMIT_S = 120.0
LOOK_EVERY_S = 0.02
# Of util-linux: the kernel ends the process when this one is gone, however that came about.
DYING_WITH_US = [found, "--pdeathsig", "KILL", "--"] if (found := shutil.which("setpriv")) else []


class Member:
    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str],
        ready_word: str = "",  # in its log, when it is at work
    ) -> None:
        self.name = name
        self.log_path = folder / f"{name}.log"
        self.starts = 0
        self.is_wanted = True  # it did not end by itself, and is to be there until the end
        self._command = list(command)
        self._environment = dict(environment)
        self._ready_word = ready_word.encode()
        self._process: subprocess.Popen[bytes] | None = None
        self._log_from = 0

    def start(self) -> None:
        self._log_from = self.log_path.stat().st_size if self.log_path.exists() else 0
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [*DYING_WITH_US, *self._command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
            )
        self.starts += 1

    def wait_ready(self) -> None:
        give_up_at = time.monotonic() + READY_LIMIT_S
        while self._ready_word not in self.said():
            if not self.is_alive or time.monotonic() > give_up_at:
                raise RuntimeError(f"{self.name} does not start:\n{self.said().decode(errors='replace')[-3000:]}")
            time.sleep(LOOK_EVERY_S)

    def said(self) -> bytes:
        """Since it was last started."""
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

    @property
    def exit_code(self) -> int | None:
        return self._process.poll() if self._process else None

    def signal(self, number: signal.Signals) -> None:
        if self.is_alive:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """And what it has started itself: a host that loses power loses all of it."""
        if self._process is None:
            return
        children = _children_of(self.pid)
        self.signal(signal.SIGKILL)
        self._process.wait()
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def ask_to_end(self) -> None:
        """Once: who is told twice may end at once."""
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)

    def ended(self) -> int:
        """Its exit code; one that does not end is killed: -9."""
        if self._process is None:
            return 0
        try:
            return self._process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return -9

    def stop(self) -> int:
        self.ask_to_end()
        return self.ended()


def _children_of(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []
