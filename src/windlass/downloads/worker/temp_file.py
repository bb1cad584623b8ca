"""Temporary file of a download. The writing process holds a lock on it: a file without a lock was left by a process
that died, and no process writes or moves the file of another. All functions block, so they run in threads."""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

SUFFIX = ".tmp"
LOCK_TIMEOUT_S = 0.5
LOOK_AGAIN_S = 0.02


class TempFile:
    def __init__(self, directory: Path, name: str, stop_requested: threading.Event) -> None:
        self.path = directory / f"{name}{SUFFIX}"
        self._stop_requested = stop_requested
        self._fd = -1

    def check(self, _: int = 0) -> None:
        """Raise InterruptedError if the download must stop. Long operations call this repeatedly."""
        if self._stop_requested.is_set():
            raise InterruptedError(f"{self.path.name} is no longer wanted")

    def open(self) -> None:
        """Open and lock the file, and remove any former content."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = _open_locked(self.path)
        os.ftruncate(self._fd, 0)

    @property
    def is_open(self) -> bool:
        """Tell whether the file is open: until it is moved or discarded."""
        return self._fd >= 0

    def write(self, parts: Sequence[bytes]) -> None:
        left = memoryview(b"".join(parts))
        while left:
            left = left[os.write(self._fd, left) :]

    def move(self, target: Path) -> None:
        """Move the file to its target, atomically and durably."""
        os.fsync(self._fd)
        is_new = not target.parent.exists()
        target.parent.mkdir(parents=True, exist_ok=True)
        self.path.rename(target)
        _sync_directory(target.parent)
        if is_new:
            _sync_directory(target.parent.parent)
        self.close()

    def discard(self) -> None:
        """Delete the file. After a move this does nothing."""
        if self.is_open:
            with contextlib.suppress(FileNotFoundError):
                self.path.unlink()
            self.close()

    def close(self) -> None:
        if self.is_open:
            os.close(self._fd)
            self._fd = -1


def _open_locked(path: Path) -> int:
    """Open and lock a file. If another process unlinked it in between, open it again. A process that removes orphans
    holds the lock for a moment too."""
    give_up_at_s = time.monotonic() + LOCK_TIMEOUT_S
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(fd, path):
                return fd
        except BlockingIOError as error:
            if time.monotonic() >= give_up_at_s:
                os.close(fd)
                raise BlockingIOError(error.errno, f"{path.name} is still written by another process") from error
            time.sleep(LOOK_AGAIN_S)
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)


def _is_at(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


def _sync_directory(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def remove_orphans(directory: Path) -> int:
    """Remove files of processes that died. Return their number."""
    removed = 0
    with contextlib.suppress(FileNotFoundError), os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.endswith(SUFFIX) and entry.is_file(follow_symlinks=False):
                removed += _remove_unlocked(Path(entry.path))
    return removed


def _remove_unlocked(path: Path) -> bool:
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _is_at(fd, path):
            return False
        path.unlink()
        return True
    except OSError:
        return False
    finally:
        os.close(fd)
