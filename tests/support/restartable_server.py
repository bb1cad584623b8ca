"""`windlass serve` as a real process on a fixed port, which can be killed and started again at the same address."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator

from tests.support.worker_process import LIMIT_S


class RestartableServer:
    def __init__(self, url: str, namespace: str, **environment: str) -> None:
        self._engine = ("--url", url, "--namespace", namespace)
        self._environment = environment
        self.port = _free_port()
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the server and wait until it is ready."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("WINDLASS_")}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "windlass", "serve", *self._engine, "--port", str(self.port), "--bedrock-port", "0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**inherited, **self._environment},
        )
        assert self._process.stdout is not None
        output = ""
        for line in self._process.stdout:
            output += line
            if "Stop with" in line:
                return
        raise AssertionError(f"the server ended: {output}")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(LIMIT_S)
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def restartable_server(url: str, namespace: str, **environment: str) -> Iterator[RestartableServer]:
    server = RestartableServer(url, namespace, **environment)
    server.start()
    try:
        yield server
    finally:
        server.kill()
