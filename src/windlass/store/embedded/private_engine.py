"""Private engine: an empty engine in a temporary directory, which persists nothing and ends with the process."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from windlass.core.errors import EngineUnavailable, EngineUnsuitable
from windlass.store.connection.connection import EngineReplyError
from windlass.store.connection.endpoint import Endpoint
from windlass.store.connection.sync_connection import SyncConnection

from .engine import LONGEST_SOCKET_PATH, EmbeddedEngine
from .lock_file import LockFile
from .supervisor import LOG, SOCKET, SUPERVISOR_LOCK, USERS_LOCK

with contextlib.suppress(ImportError):  # not on Windows (windlass.processes.posix)
    import fcntl

PREFIX = "windlass-copy-"
SHORT_PLACE = "/tmp"  # noqa: S108 -- the path of a socket must be short, and mkdtemp makes a directory of our own
DATA_FILE = "dump.rdb"
LOAD_LIMIT_S = 3_600.0
STOP_LIMIT_S = 5.0
BEGINNING_S = 60.0  # in which a new engine takes its locks
MEMORY_ONLY = ("--appendonly", "no", "--save", "")
_LOADS_FILES = ("--enable-debug-command", "yes")


class PrivateEngine:
    def __init__(self, engine: EmbeddedEngine) -> None:
        self._engine = engine

    @property
    def data_file(self) -> Path:
        """File that `load` reads."""
        return self._engine.data_dir / DATA_FILE

    def endpoint(self, db: int = 0) -> Endpoint:
        return Endpoint(unix_path=str(self._engine.socket_path), db=db)

    def load(self) -> None:
        """Add the data of the file, and delete the file."""
        connection = SyncConnection.open(self.endpoint())
        try:
            # Older engines have no such check, and refuse files of newer ones. This one tries to read them.
            connection.pipeline([("CONFIG", "SET", "rdb-version-check", "relaxed")])
            connection.call("DEBUG", "RELOAD", "NOSAVE", "NOFLUSH", "MERGE", timeout_s=LOAD_LIMIT_S)
        except (EngineReplyError, EngineUnavailable) as error:
            raise EngineUnsuitable(
                f"The snapshot cannot be loaded by the engine of this installation: {self._last_words() or error}. "
                "The other engine may be newer, or have data of modules; --live reads it without a snapshot."
            ) from error
        finally:
            connection.close()
            self.data_file.unlink(missing_ok=True)

    def _last_words(self) -> str:
        with contextlib.suppress(OSError):
            lines = (self._engine.data_dir / LOG).read_text(errors="replace").splitlines()
            problems = [line for line in lines if " # " in line]
            return problems[-1].partition(" # ")[2].rstrip(".") if problems else ""
        return ""


@contextlib.contextmanager
def private_engine(databases: int = 1) -> Iterator[PrivateEngine]:
    """Run a private engine. If this process is killed, the supervisor sees its end and stops the engine."""
    _remove_left_over()
    directory = make_directory(PREFIX)
    options = (*MEMORY_ONLY, *_LOADS_FILES, "--databases", str(databases))
    engine = EmbeddedEngine(directory, memory_max=None, extra_arguments=options)
    try:
        with engine:
            yield PrivateEngine(engine)
    finally:
        _wait_for_end(directory)
        shutil.rmtree(directory, ignore_errors=True)


def _wait_for_end(directory: Path) -> None:
    """Wait until the supervisor has stopped the engine: until then it writes into the directory."""
    deadline = time.monotonic() + STOP_LIMIT_S
    with LockFile(directory / SUPERVISOR_LOCK) as lock:
        while not lock.try_lock(fcntl.LOCK_EX) and time.monotonic() < deadline:
            time.sleep(0.01)


def make_directory(prefix: str) -> Path:
    """Create a directory whose path is short enough for a socket, wherever temporary files are."""
    directory = Path(tempfile.mkdtemp(prefix=prefix))
    if len(os.fsencode(directory / SOCKET)) > LONGEST_SOCKET_PATH:
        directory.rmdir()
        directory = Path(tempfile.mkdtemp(prefix=prefix, dir=SHORT_PLACE))
    return directory


def _remove_left_over() -> None:
    """Remove directories of processes that were killed: they may hold a copy of all data."""
    for place in {tempfile.gettempdir(), SHORT_PLACE}:
        for directory in Path(place).glob(f"{PREFIX}*"):
            with contextlib.suppress(OSError):
                if _is_left_over(directory):
                    shutil.rmtree(directory, ignore_errors=True)


def _is_left_over(directory: Path) -> bool:
    status = directory.lstat()
    if status.st_uid != os.geteuid() or time.time() - status.st_mtime < BEGINNING_S:
        return False
    with LockFile(directory / USERS_LOCK) as lock:
        return lock.try_lock(fcntl.LOCK_EX)
