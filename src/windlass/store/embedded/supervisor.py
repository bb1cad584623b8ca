"""The keeper: a small detached process, the parent of the engine of one data directory.

It owns starting, restarting and stopping the engine; starting a keeper is the users' part (`embedded.py`).
It is run as a file by a bare interpreter and imports nothing of windlass: it starts fast and stays small.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

if __package__:
    from . import data_directory as files
else:  # run as a file: only what lies beside it can be imported
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    import data_directory as files  # type: ignore[import-not-found, no-redef]

# Three locks (flock: the kernel drops them however their holder dies) make this correct by construction.
#
# users.lock   Every user holds it shared. The keeper waits for it exclusively: when it has it, no user is
#              left, and none can join until the keeper lets go, which it does when the engine is gone. A user
#              that joins meanwhile simply waits, then finds no keeper and starts one. So whoever holds the
#              shared lock knows that nobody is stopping the engine.
# keeper.lock  Held by the one keeper. The user that starts a keeper takes it and hands it over with its
#              descriptor, so ten users that start together start one process, not ten that compete.
# engine.lock  One open file that keeper and engine share (the engine inherits it), held while either lives.
#              A new keeper that cannot have it knows that an engine has survived its keeper, and the same
#              lock tells it when that engine ends. A PING cannot decide this: the server removes a socket
#              that is in its way, so a busy engine that missed a PING would get a second one beside it on
#              the same files.
USERS_LOCK = "users.lock"
KEEPER_LOCK = "keeper.lock"
ENGINE_LOCK = "engine.lock"

SOCKET = "engine.sock"
LOG = "engine.log"
STATE = "engine.json"

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 2.0
STEADY_S = 10.0  # an engine that lived this long did not die of its start: the pauses begin anew
STOP_S = 10.0
WATCH_S = 1.0  # between looks at the directory when the system reports no change
LOG_TAIL_BYTES = 64 * 1024
LOG_BYTES = 8 * 1024 * 1024  # a log beyond this is set aside (one old one is kept) before the next start


def ask(socket_path: str, command: bytes, timeout_s: float = 1.0) -> str:
    """The engine's answer to an inline command (one line, or one bulk string); empty when there is none."""
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
    """BUSY is an engine at work on a long script: alive, and what to do is for its client to decide."""
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


def environment(preload: str) -> dict[str, str]:
    """Of an engine, with an LD_PRELOAD as `allocator.preload_for` says it."""
    return {**os.environ, "LD_PRELOAD": preload} if preload else dict(os.environ)


class StateFile:
    """engine.json: what a person or a waiting user may want to know. Nothing is decided by it."""

    def __init__(self, data_dir: str, is_ours: Callable[[], bool] = lambda: True) -> None:
        self._path = os.path.join(data_dir, STATE)
        self._is_ours = is_ours  # another engine may have the path by now
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
        # A full disk must not end the keeper; users then find the reason themselves.
        with contextlib.suppress(OSError):
            with open(f"{self._path}.new", "w", encoding="utf-8") as file:
                json.dump(self._state, file)
            os.replace(f"{self._path}.new", self._path)

    def let_go(self) -> None:
        """Leave the file alone from now on."""
        self._is_ours = lambda: False

    def remove(self) -> None:
        with contextlib.suppress(OSError):
            if self._is_ours():
                os.unlink(self._path)


def log_of_last_start(data_dir: str, most: int = LOG_TAIL_BYTES) -> str:
    """The end of the engine's log, from its last start on."""
    try:
        with open(os.path.join(data_dir, LOG), "rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - most))
            tail = log.read().decode(errors="replace")
    except OSError:
        return ""
    return tail.rpartition(" is starting oO0O")[2]


class Engine:
    """The engine process of one directory, kept alive by a thread until `stop`, or until its directory is gone."""

    def __init__(self, data_dir: str, server: str, preload: str, extra_arguments: list[str]) -> None:
        self._data_dir = data_dir
        self._socket = os.path.join(data_dir, SOCKET)
        self._log = os.path.join(data_dir, LOG)
        self._command = [server, *engine_arguments(data_dir), *extra_arguments]
        self._preload = preload
        self._lock_fd = _open_lock(data_dir, ENGINE_LOCK)
        self._directory = files.DirectoryWatch(data_dir, os.path.join(data_dir, ENGINE_LOCK), self._lock_fd)
        self._state = StateFile(data_dir, self._directory.is_same_place)
        self._failures = 0
        self._send_signal: Callable[[int], None] = lambda _: None
        self._spawning = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._supervise, daemon=True)

    def start(self) -> None:
        previous_state = self._state.read()
        self._state.update(keeper_pid=os.getpid(), engine_pid=None, error=None, failures=0)
        self._directory.notify()
        if not _try_lock(self._lock_fd):
            self._adopt(previous_state)
            self._directory.watch_append_only()
            self._directory.is_intact()
        self._thread.start()
        threading.Thread(target=self._watch, daemon=True).start()

    def stop(self) -> None:
        with self._spawning:
            self._stopping.set()
        for signal_number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                self._send_signal(signal_number)
            self._thread.join(STOP_S)
            if not self._thread.is_alive():
                break
        self._state.remove()

    def _adopt(self, previous_state: dict[str, object]) -> None:
        about = self._about()
        pid = about.get("process_id") or previous_state.get("engine_pid")
        if pid is None:
            return
        engine_pid = int(str(pid))
        self._send_signal = lambda signal_number: os.kill(engine_pid, signal_number)
        self._state.update(
            engine_pid=engine_pid,
            version=_version(about),
            started_at_ms=previous_state.get("started_at_ms"),
            preload=previous_state.get("preload"),
        )

    def _watch(self) -> None:
        while self._directory.is_intact():
            self._directory.wait(WATCH_S)
        self._abandon()

    def _abandon(self) -> None:
        """End the engine at once: what it acknowledges from now on would be lost with its files.

        SIGKILL, because in its orderly end it would remove a socket that may be another engine's by now.
        """
        with self._spawning:
            self._stopping.set()
        with contextlib.suppress(ProcessLookupError):
            self._send_signal(signal.SIGKILL)
        self._state.let_go()
        print(f"{self._data_dir} was deleted or replaced: its engine was stopped.", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGTERM)

    def _supervise(self) -> None:
        fcntl.flock(self._lock_fd, fcntl.LOCK_EX)  # returns at once, or when an adopted engine has ended
        quick_exits = 0
        while not self._stopping.is_set() and self._directory.is_intact():
            began = time.monotonic()
            # Whatever ended it so soon, the preloaded library is not to be what ends the next one.
            self._run_once("" if quick_exits else self._preload)
            pause_s = min(FIRST_PAUSE_S * 2**quick_exits, LONGEST_PAUSE_S)
            is_steady = time.monotonic() - began > STEADY_S
            quick_exits = 0 if is_steady else min(quick_exits + 1, 10)
            self._stopping.wait(pause_s)

    def _run_once(self, preload: str) -> None:
        """One life of the engine, from its start to its end."""
        if reason := files.why_not_startable(self._data_dir):
            self._note_failure(reason)
            return
        sizes = files.file_sizes(self._data_dir)
        try:
            process = self._spawn(preload)
        except OSError as error:
            self._note_failure(f"{self._command[0]} cannot be run: {error.strerror}")
            return
        if process is None:
            return
        was_ready = self._wait_until_ready(process, sizes)
        status = process.wait()
        self._state.update(engine_pid=None, **self._why_not_written(was_ready))
        if not was_ready and not self._stopping.is_set():
            self._note_failure(f"the engine ended with status {status} while it started")

    def _spawn(self, preload: str) -> subprocess.Popen[bytes] | None:
        self._set_long_log_aside()
        with contextlib.suppress(OSError):
            os.unlink(self._socket)  # nobody listens on it: we hold engine.lock and have no child
        with self._spawning:
            if self._stopping.is_set():
                return None
            process = subprocess.Popen(  # noqa: S603 -- the command is ours, no shell
                self._command, stdin=subprocess.DEVNULL, pass_fds=(self._lock_fd,), env=environment(preload)
            )
            self._send_signal = process.send_signal
        self._state.update(engine_pid=process.pid, started_at_ms=_now_ms(), preload=preload)
        return process

    def _wait_until_ready(self, process: subprocess.Popen[bytes], sizes: dict[str, int]) -> bool:
        while process.poll() is None:
            if is_ready(ask(self._socket, b"PING")):
                self._failures = 0
                self._directory.watch_append_only()
                self._directory.is_intact()
                self._note_cut(sizes)
                self._state.update(version=_version(self._about()), error=None, failures=0, ready_pid=process.pid)
                return True
            time.sleep(0.01)
        return False

    def _note_cut(self, sizes: dict[str, int]) -> None:
        cut = files.find_cut(log_of_last_start(self._data_dir), sizes, _now_ms())
        if cut is not None:
            with contextlib.suppress(OSError):
                files.add_cut(self._data_dir, cut)

    def _why_not_written(self, was_ready: bool) -> dict[str, object]:
        error = files.find_write_error(log_of_last_start(self._data_dir)) if was_ready else None
        return {"write_error": error, "write_failed_at_ms": _now_ms()} if error else {}

    def _note_failure(self, error: str) -> None:
        self._failures += 1
        self._state.update(error=error, failures=self._failures, failed_at_ms=_now_ms())

    def _about(self) -> dict[str, str]:
        lines = ask(self._socket, b"INFO server").splitlines()
        return {name: value for name, _, value in (line.partition(":") for line in lines)}

    def _set_long_log_aside(self) -> None:
        with contextlib.suppress(OSError):
            if os.path.getsize(self._log) > LOG_BYTES:
                os.replace(self._log, f"{self._log}.old")


class _EndRequestError(Exception):
    """SIGTERM, as an exception: it ends the wait for the users."""


def _end(_signal: int, _frame: FrameType | None) -> None:
    raise _EndRequestError


def _wait_until_unused(users_fd: int) -> None:
    """Until the last user has left, or somebody ends this process politely (users then start another)."""
    with contextlib.suppress(_EndRequestError):
        signal.signal(signal.SIGTERM, _end)
        fcntl.flock(users_fd, fcntl.LOCK_EX)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _version(about: dict[str, str]) -> str | None:
    return about.get("valkey_version") or about.get("redis_version")


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


def keep(engine: Engine, users_fd: int, keeper_fd: int) -> None:
    engine.start()
    _wait_until_unused(users_fd)
    engine.stop()
    # In this order: a user that gets users.lock must find keeper.lock free.
    os.close(keeper_fd)
    os.close(users_fd)


def main(arguments: list[str]) -> None:
    """Arguments: directory, server binary, its LD_PRELOAD, descriptor of the held keeper.lock or -, its arguments."""
    data_dir, server, preload, handed_over, *extra_arguments = arguments
    keeper_fd = _open_lock(data_dir, KEEPER_LOCK) if handed_over == "-" else int(handed_over)
    if not _try_lock(keeper_fd):
        return  # another keeper is there
    os.umask(0o077)
    users_fd = _open_lock(data_dir, USERS_LOCK)
    engine = Engine(data_dir, server, preload, extra_arguments)
    # The user that started us waits for this first process only, and learns from its exit status what failed
    # up to here. The keeper itself is nobody's child: no user gets a zombie.
    if os.fork() == 0:
        keep(engine, users_fd, keeper_fd)


if __name__ == "__main__":
    main(sys.argv[1:])
