"""Process of a program under test, in its own environment (spoken/speaking.py describes the protocol)."""

import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic, monotonic_ns, sleep
from typing import Any, Self

import windlass

from . import WINDLASS
from .environment import HERE, python_of

LIMIT_S = 60.0
LOOK_EVERY_S = 0.005


class PeerFailure(Exception):
    """Failure of a program in a measurement. The message names the program and its error output."""


class PeerProcess:
    def __init__(self, peer: str, url: str, *words: str, program: str = "app.py") -> None:
        self._name = f"{peer} {' '.join(words)}"
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        folder = HERE / peer
        self._process = subprocess.Popen(
            [python_of(peer), str(folder / program), *words],
            cwd=folder,
            env=_environment(peer, url),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self.ran = 0  # jobs run, as last reported by a worker
        self._is_ready = False
        self._findings: dict[str, Any] | None = None
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                stream.close()

    def wait_ready(self) -> None:
        self._wait(lambda: self._is_ready, "did not become ready")

    def stop(self) -> None:
        """Ask the program to stop, and wait until it has."""
        self._process.terminate()
        try:
            self._process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            raise self._failure("did not stop") from None

    def tell(self) -> int:
        """Send the signal to start or stop, and return the instant before it."""
        assert self._process.stdin is not None
        told_at_ns = monotonic_ns()
        try:
            self._process.stdin.write("go\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._failure("has already ended") from None
        return told_at_ns

    def findings(self) -> dict[str, Any]:
        self._wait(lambda: self._findings is not None, "did not end")
        assert self._findings is not None
        return self._findings

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def _wait(self, is_done: Callable[[], bool], complaint: str) -> None:
        give_up_at_s = monotonic() + LIMIT_S
        while not is_done():
            if monotonic() > give_up_at_s or not self._reader.is_alive():
                if is_done():
                    return
                raise self._failure(complaint)
            sleep(LOOK_EVERY_S)

    def _failure(self, complaint: str) -> PeerFailure:
        self._errors.seek(0)
        return PeerFailure(f"{self._name} {complaint}: {self._errors.read()[-1500:].decode(errors='replace')}")

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line == "ready\n":
                self._is_ready = True
            elif line.startswith("{"):
                self._findings = json.loads(line)
            elif line.strip().isdigit():
                self.ran = int(line)


def _environment(peer: str, url: str) -> dict[str, str]:
    """Return the variables of a program. Windlass is imported from the tree that this process uses."""
    # With PYTHONUNBUFFERED, Python writes once and drops the bytes that a full pipe did not take.
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "WINDLASS"))}
    folders = [HERE / "spoken"]
    if peer == WINDLASS:
        folders.append(Path(windlass.__file__).parent.parent)
    return {**kept, "PEER_URL": url, "PYTHONPATH": os.pathsep.join(map(str, folders))}
