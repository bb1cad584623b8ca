"""Supervisor of an embedded engine: a small detached process, the parent of the engine of one data directory.

It adds to the shared supervisor (`windlass.processes.blocking_supervisor`) the locks, the watch of the data directory
and the state file. The users of the engine start it (`engine.py`), and it survives them. It runs as a script in a bare
interpreter and imports only the standard library and a few modules of this package, so it starts fast and stays small.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType, ModuleType

if not __package__:  # run as a script: make the package importable, without the modules that its __init__.py imports
    _package = sys.modules["windlass"] = ModuleType("windlass")
    _package.__path__ = [os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))]

from windlass.pauses import Pauses
from windlass.processes.blocking_supervisor import BlockingSupervisor
from windlass.processes.supervision_policy import RestartBackoff, StopOrder, StopPolicy, StopStep
from windlass.store.embedded import data_directory as files

with contextlib.suppress(ImportError):  # not on Windows (windlass.processes.posix)
    import fcntl

# Three locks make this correct by construction. They are flocks: the kernel releases them however their holder dies.
#
# users.lock   Each user holds it shared. The supervisor waits for it exclusively. Once it has the lock, no user is
#              left, and none can join until the supervisor releases it after the engine's end. A user that joins in
#              that time waits, then finds no supervisor and starts one. So while a user holds the shared lock, the
#              engine is not being stopped.
# keeper.lock  Held by the only supervisor. The user that starts a supervisor takes the lock and passes it on with its
#              descriptor. So ten users that start together start one process, not ten that compete.
# engine.lock  One open file that supervisor and engine share (the engine inherits it), held while either lives.
#              If a new supervisor cannot get it, an engine has survived its supervisor, and the same lock shows when
#              that engine ends. A PING cannot show this: the server removes a socket that is in its way, so a busy
#              engine that missed a PING would get a second engine beside it on the same files.
USERS_LOCK = "users.lock"
SUPERVISOR_LOCK = "keeper.lock"
ENGINE_LOCK = "engine.lock"

SOCKET = "engine.sock"
LOG = "engine.log"
STATE = "engine.json"

PAUSES = Pauses(0.05, 2.0)
STEADY_S = 10.0  # an engine that ran this long did not fail at its start: the pauses start again at the shortest
STOPPING = StopPolicy(StopStep(StopOrder.STOP, 10.0), StopStep(StopOrder.KILL, 10.0))
WATCH_S = 1.0  # between checks of the directory when the system reports no change
LOG_TAIL_BYTES = 64 * 1024
LOG_BYTES = 8 * 1024 * 1024  # a longer log is rotated before the next start; one old log is kept


def send_command(socket_path: str, command: bytes, timeout_s: float = 1.0) -> str:
    """Send an inline command, and return the reply (one line, or one bulk string); empty without a reply."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(timeout_s)
            connection.connect(socket_path)
            connection.sendall(command + b"\r\n")
            with connection.makefile("rb") as reader:
                line = reader.readline()
                answer = reader.read(int(line[1:])) if line.startswith(b"$") else line
    except (OSError, ValueError):
        return ""
    return answer.decode(errors="replace").strip()


def is_ready(ping_answer: str) -> bool:
    """Return whether the engine answered. BUSY means that it runs a long script: it is alive, and its clients decide
    what to do."""
    return ping_answer.startswith(("+PONG", "-BUSY"))


def engine_arguments(data_dir: str) -> list[str]:
    settings = {
        "port": "0",
        "unixsocket": os.path.join(data_dir, SOCKET),
        "unixsocketperm": "700",
        "dir": data_dir,
        "appendonly": "yes",
        "appendfsync": "always",
        "save": "",
        "repl-diskless-sync-delay": "0",  # for backups: no replica comes that they should wait for
        "maxmemory-policy": "noeviction",
        "no-appendfsync-on-rewrite": "no",
        "auto-aof-rewrite-percentage": "100",
        "auto-aof-rewrite-min-size": "64mb",
        "logfile": os.path.join(data_dir, LOG),
        "daemonize": "no",
        "loglevel": "notice",
        "timeout": "0",
    }
    return [word for name, value in settings.items() for word in (f"--{name}", value)]


def engine_environment(preload: str) -> dict[str, str]:
    """Return the environment of an engine, with the LD_PRELOAD that `allocator.preload_for` returned."""
    return {**os.environ, "LD_PRELOAD": preload} if preload else dict(os.environ)


class StateFile:
    """engine.json: status for people and for waiting users. No decision depends on it."""

    def __init__(self, data_dir: str, is_ours: Callable[[], bool] = lambda: True) -> None:
        self._path = os.path.join(data_dir, STATE)
        self._is_ours = is_ours  # False once another engine may use the path
        self._state: dict[str, object] = {}

    def read(self) -> dict[str, object]:
        with contextlib.suppress(OSError, ValueError), open(self._path, encoding="utf-8") as file:
            state = json.load(file)
            if isinstance(state, dict):
                return state
        return {}

    def update(self, **changes: object) -> None:
        self._state.update(changes)
        if not self._is_ours():
            return
        # A full disk must not end the supervisor; users then find the reason themselves.
        with contextlib.suppress(OSError):
            with open(f"{self._path}.new", "w", encoding="utf-8") as file:
                json.dump(self._state, file)
            os.replace(f"{self._path}.new", self._path)

    def release(self) -> None:
        """Stop writing and removing the file."""
        self._is_ours = lambda: False

    def remove(self) -> None:
        with contextlib.suppress(OSError):
            if self._is_ours():
                os.unlink(self._path)


def log_of_last_start(data_dir: str, most: int = LOG_TAIL_BYTES) -> str:
    """Return the end of the engine's log, from its last start on."""
    try:
        with open(os.path.join(data_dir, LOG), "rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - most))
            tail = log.read().decode(errors="replace")
    except OSError:
        return ""
    return tail.rpartition(" is starting oO0O")[2]


class EngineProcess:
    """Engine process of one directory. It is restarted until `stop`, or until the directory is gone."""

    def __init__(self, data_dir: str, server: str, preload: str, extra_arguments: list[str]) -> None:
        self._data_dir = data_dir
        self._socket = os.path.join(data_dir, SOCKET)
        self._log = os.path.join(data_dir, LOG)
        self._command = [server, *engine_arguments(data_dir), *extra_arguments]
        self._preload = preload
        self._lock_fd = _open_lock(data_dir, ENGINE_LOCK)
        self._directory = files.DirectoryWatch(data_dir, os.path.join(data_dir, ENGINE_LOCK), self._lock_fd)
        self._state = StateFile(data_dir, self._directory.is_same_directory)
        self._failures = 0
        self._backoff = RestartBackoff(PAUSES, STEADY_S)
        self._supervisor = BlockingSupervisor(self._run_once, self._backoff, STOPPING)

    def start(self) -> None:
        previous_state = self._state.read()
        self._state.update(keeper_pid=os.getpid(), engine_pid=None, error=None, failures=0)
        self._directory.enable_notifications()
        if not _try_lock(self._lock_fd):
            self._adopt(previous_state)
            self._directory.watch_append_only()
            self._directory.is_intact()
        self._supervisor.start()
        threading.Thread(target=self._watch, daemon=True).start()

    def stop(self) -> None:
        self._supervisor.stop()
        self._state.remove()

    def _adopt(self, previous_state: dict[str, object]) -> None:
        info = self._server_info()
        pid = info.get("process_id") or previous_state.get("engine_pid")
        engine_pid = None if pid is None else int(str(pid))
        self._supervisor.adopt(engine_pid, await_end=lambda: fcntl.flock(self._lock_fd, fcntl.LOCK_EX))
        if engine_pid is not None:
            self._state.update(
                engine_pid=engine_pid,
                version=_version(info),
                started_at_ms=previous_state.get("started_at_ms"),
                preload=previous_state.get("preload"),
            )

    def _watch(self) -> None:
        while self._directory.is_intact():
            self._directory.wait(WATCH_S)
        self._abandon()

    def _abandon(self) -> None:
        """Kill the engine at once: writes that it acknowledges from now on would be lost with its files.

        SIGKILL, because an orderly shutdown would remove the socket, which may belong to another engine by now.
        """
        self._supervisor.abandon()
        self._state.release()
        print(f"{self._data_dir} was deleted or replaced; its engine was stopped.", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGTERM)

    def _run_once(self) -> None:
        """Run the engine once, from its start to its end."""
        if not self._directory.is_intact():
            return  # `_watch` notices it as well, and ends this process
        if reason := files.find_start_obstacle(self._data_dir):
            self._record_failure(reason)
            return
        sizes = files.file_sizes(self._data_dir)
        try:
            process = self._spawn()
        except OSError as error:
            self._record_failure(f"{self._command[0]} cannot be run: {error.strerror}")
            return
        if process is None:
            return
        was_ready = self._wait_until_ready(process, sizes)
        status = process.wait()
        self._state.update(engine_pid=None, **self._write_failure(was_ready))
        if not was_ready and not self._supervisor.is_stopping:
            self._record_failure(f"the engine ended with status {status} while it started")

    def _spawn(self) -> subprocess.Popen[bytes] | None:
        # After a quick exit, start without the preloaded library, in case it was the cause.
        preload = "" if self._backoff.quick_exits else self._preload
        self._rotate_log()
        with contextlib.suppress(OSError):
            os.unlink(self._socket)  # no process listens on it: we hold engine.lock and have no child
        process = self._supervisor.spawn(
            self._command, stdin=subprocess.DEVNULL, pass_fds=(self._lock_fd,), env=engine_environment(preload)
        )
        if process is not None:
            self._state.update(engine_pid=process.pid, started_at_ms=_now_ms(), preload=preload)
        return process

    def _wait_until_ready(self, process: subprocess.Popen[bytes], sizes: dict[str, int]) -> bool:
        while process.poll() is None:
            if is_ready(send_command(self._socket, b"PING")):
                self._failures = 0
                self._directory.watch_append_only()
                self._directory.is_intact()
                self._record_cut(sizes)
                self._state.update(version=_version(self._server_info()), error=None, failures=0, ready_pid=process.pid)
                return True
            time.sleep(0.01)
        return False

    def _record_cut(self, sizes: dict[str, int]) -> None:
        cut = files.find_cut(log_of_last_start(self._data_dir), sizes, _now_ms())
        if cut is not None:
            with contextlib.suppress(OSError):
                files.add_cut(self._data_dir, cut)

    def _write_failure(self, was_ready: bool) -> dict[str, object]:
        error = files.find_write_error(log_of_last_start(self._data_dir)) if was_ready else None
        return {"write_error": error, "write_failed_at_ms": _now_ms()} if error else {}

    def _record_failure(self, error: str) -> None:
        self._failures += 1
        self._state.update(error=error, failures=self._failures, failed_at_ms=_now_ms())

    def _server_info(self) -> dict[str, str]:
        lines = send_command(self._socket, b"INFO server").splitlines()
        return {name: value for name, _, value in (line.partition(":") for line in lines)}

    def _rotate_log(self) -> None:
        with contextlib.suppress(OSError):
            if os.path.getsize(self._log) > LOG_BYTES:
                os.replace(self._log, f"{self._log}.old")


class _EndRequestError(Exception):
    """SIGTERM as an exception, which ends the wait for the users."""


def _raise_end_request(_signal: int, _frame: FrameType | None) -> None:
    raise _EndRequestError


def _wait_until_unused(users_fd: int) -> None:
    """Wait until the last user has left, or until SIGTERM (users then start another supervisor)."""
    with contextlib.suppress(_EndRequestError):
        signal.signal(signal.SIGTERM, _raise_end_request)
        fcntl.flock(users_fd, fcntl.LOCK_EX)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _version(info: dict[str, str]) -> str | None:
    return info.get("valkey_version") or info.get("redis_version")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _open_lock(data_dir: str, name: str) -> int:
    return os.open(os.path.join(data_dir, name), os.O_RDWR | os.O_CREAT, 0o600)


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def supervise(engine: EngineProcess, users_fd: int, supervisor_fd: int) -> None:
    engine.start()
    _wait_until_unused(users_fd)
    engine.stop()
    # In this order: a user that gets users.lock must find keeper.lock free.
    os.close(supervisor_fd)
    os.close(users_fd)


def main(arguments: list[str]) -> None:
    """Run the supervisor. Arguments: directory, server binary, its LD_PRELOAD, descriptor of the held keeper.lock or -,
    further arguments of the server."""
    data_dir, server, preload, inherited_fd, *extra_arguments = arguments
    supervisor_fd = _open_lock(data_dir, SUPERVISOR_LOCK) if inherited_fd == "-" else int(inherited_fd)
    if not _try_lock(supervisor_fd):
        return  # another supervisor runs
    os.umask(0o077)
    users_fd = _open_lock(data_dir, USERS_LOCK)
    engine = EngineProcess(data_dir, server, preload, extra_arguments)
    # The user that started us waits for this first process only, and its exit status reports a failure up to here.
    # The supervisor itself is a grandchild, so it does not become a zombie of a user.
    if os.fork() == 0:
        supervise(engine, users_fd, supervisor_fd)


if __name__ == "__main__":
    main(sys.argv[1:])
