"""`windlass` as a real process on a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import subprocess
import sys
import termios
import time

from tests.support.console import environment
from windlass.service import Service

WINDLASS = [sys.executable, "-m", "windlass"]
SEEN_WITHIN_S = 60.0


class Terminal:
    """A `windlass` process whose three streams are a terminal of a given size."""

    def __init__(self, service: Service, *arguments: str, columns: int = 80) -> None:
        self._own, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (30, columns))
        environ = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
        self._process = subprocess.Popen(
            [*WINDLASS, *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environ | environment(service) | {"TERM": "xterm"},
            preexec_fn=lambda: _control(theirs),  # noqa: PLW1509
        )
        os.close(theirs)
        self.seen = ""

    def read_until(self, words: str) -> str:
        give_up_at_s = time.monotonic() + SEEN_WITHIN_S
        while words not in self.seen and self._read(give_up_at_s - time.monotonic()):
            pass
        assert words in self.seen, self.seen
        return self.seen

    def _read(self, within_s: float) -> bool:
        ready, _, _ = select.select([self._own], [], [], max(0.0, within_s))
        try:
            data = os.read(self._own, 65536) if ready else b""
        except OSError:  # the other side is closed
            data = b""
        self.seen += data.decode(errors="replace")
        return bool(data)

    def type(self, text: str) -> None:
        os.write(self._own, text.encode())

    def end(self) -> int:
        """Wait for the end of the process, or kill it after a time limit. Return its exit code."""
        give_up_at_s = time.monotonic() + SEEN_WITHIN_S
        while time.monotonic() < give_up_at_s and self._read(give_up_at_s - time.monotonic()):
            pass
        if time.monotonic() >= give_up_at_s:
            self._process.kill()
        os.close(self._own)
        return self._process.wait(SEEN_WITHIN_S)

    @property
    def lines(self) -> list[str]:
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.seen).replace("\r", "").split("\n")


def _control(terminal: int) -> None:
    """Make it the controlling terminal, so that Ctrl-C sends a signal."""
    os.setsid()
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
