"""A real `windlass serve` on a free port. It ends with its block."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from windlass.store.store import Store

COMMAND = (sys.executable, "-m", "windlass", "serve")
END_LIMIT_S = 20.0  # shorter than the server's own limit for a silent client


def environment(**settings: str) -> dict[str, str]:
    """Return the environment with these settings instead of the developer's: `token="…"` is WINDLASS_TOKEN."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("WINDLASS_")}
    return (
        inherited
        | {"WINDLASS_PORT": "0", "WINDLASS_BEDROCK_PORT": "0"}
        | {f"WINDLASS_{name.upper()}": value for name, value in settings.items()}
    )


def store_options(store: Store) -> list[str]:
    """Return the options for the deployment of a test."""
    return ["--url", str(store.endpoint), "--namespace", store.namespace]


class ServerProcess:
    def __init__(self, arguments: Sequence[str], **settings: str) -> None:
        self._command = [*COMMAND, *arguments]
        self._environment = environment(**settings)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed by __exit__)
        self.known_children: set[int] = set()
        self.output = ""
        self.url = ""

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=self._errors, text=True, env=self._environment
        )
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.output += line
            if "Stop with" in line:
                break
        else:
            self.__exit__(None, None, None)
            raise AssertionError(f"the server did not start: {self.output}")
        (self.url,) = re.findall(r"ready at (https?://\S+)", self.output)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.known_children |= set(self.children)
            self.process.kill()
        for pid in filter(is_alive, self.known_children):
            _kill(pid)
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._errors.close()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.url.partition("://")[2].rpartition(":")
        return host.strip("[]"), int(port)

    @property
    def bedrock(self) -> tuple[str, int]:
        """Address of the Bedrock port."""
        ((host, port),) = re.findall(r"bedrock +(\S+):(\d+)\n", self.output)
        return host.strip("[]"), int(port)

    @property
    def children(self) -> list[int]:
        """Pids of the server processes of a parent, without the embedded engine."""
        found = [int(pid) for pid in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()]
        self.known_children |= set(found)
        return found

    @property
    def errors(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode()

    def signal(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        """Wait for the end and return the exit code."""
        return self.process.wait(END_LIMIT_S)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until(is_so: Callable[[], bool]) -> None:
    give_up_at_s = time.monotonic() + END_LIMIT_S
    while not is_so():
        assert time.monotonic() < give_up_at_s, f"the condition was not met within {END_LIMIT_S:g} s"
        time.sleep(0.01)
