"""Temporary file of a download. The writing process holds a lock on it: a file without a lock was left by a process
that died, and no process writes or moves the file of another. All functions block, so they run in threads.

A body whose transfer broke off is kept as a partial file, with its resume point behind its bytes, until the next
attempt of the same download opens it."""

from __future__ import annotations

import contextlib
import os
import struct
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from .resume import ResumePoint

with contextlib.suppress(ImportError):  # not on Windows (windlass.processes.posix)
    import fcntl

SUFFIX = ".tmp"
PARTIAL_SUFFIX = ".part"
PARTIAL_KEPT_S = 7200.0  # longer than an origin can delay the next attempt
_TRAILER = struct.Struct(">I8s")  # length of the resume point before it, and a mark
_MARK = b"windlass"
_POINT_MAX = 64 * 1024
LOCK_TIMEOUT_S = 0.5
LOOK_AGAIN_S = 0.02


class TempFile:
    def __init__(self, directory: Path, name: str, stop_requested: threading.Event) -> None:
        self.path = directory / f"{name}{SUFFIX}"
        self._partial = directory / f"{name}{PARTIAL_SUFFIX}"
        self._stop_requested = stop_requested
        self._fd = -1

    def check(self, _: int = 0) -> None:
        """Raise InterruptedError if the download must stop. Long operations call this repeatedly."""
        if self._stop_requested.is_set():
            raise InterruptedError(f"{self.path.name} is no longer wanted")

    def open(self, url: str = "") -> ResumePoint | None:
        """Open and lock the file, and remove any former content. If an earlier attempt left a part of this URL's body,
        the file has that part, and its resume point is returned."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = _open_locked(self.path)
        point = self._adopt_partial(url)
        if point is None:
            self.clear()
        return point

    def _adopt_partial(self, url: str) -> ResumePoint | None:
        try:
            fd = os.open(self._partial, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return None
        point = None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            point = _read_point(fd)
            if point is not None and point.url == url:
                os.ftruncate(fd, point.received)
                os.lseek(fd, 0, os.SEEK_END)
                self._partial.rename(self.path)  # both are locked
                fd, self._fd = self._fd, fd
                return point
            self._partial.unlink(missing_ok=True)
        except BlockingIOError:
            pass  # a process that removes orphans holds it
        finally:
            os.close(fd)
        return None

    def keep_partial(self, point: ResumePoint) -> None:
        """Keep the file for the next attempt. It must have the bytes that the resume point says."""
        encoded = msgspec.json.encode(point)
        self.write([encoded, _TRAILER.pack(len(encoded), _MARK)])
        os.fsync(self._fd)
        self.path.rename(self._partial)
        self.close()

    def clear(self) -> None:
        os.ftruncate(self._fd, 0)
        os.lseek(self._fd, 0, os.SEEK_SET)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def read_start(self, most: int) -> bytes:
        return os.pread(self._fd, most, 0)

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


def _read_point(fd: int) -> ResumePoint | None:
    """Read the resume point behind the bytes of a partial file. None if the file was not written to its end."""
    size = os.fstat(fd).st_size
    try:
        length, mark = _TRAILER.unpack(os.pread(fd, _TRAILER.size, max(0, size - _TRAILER.size)))
        at = size - _TRAILER.size - length
        if mark != _MARK or length > _POINT_MAX or at < 0:
            return None
        point = msgspec.json.decode(os.pread(fd, length, at), type=ResumePoint)
    except (struct.error, msgspec.DecodeError, UnicodeDecodeError):
        return None
    return point if point.received == at else None


def remove_orphans(directory: Path, partial_kept_s: float = PARTIAL_KEPT_S) -> int:
    """Remove files of processes that died, and partial files that no attempt has continued for a while. Return their
    number."""
    removed = 0
    before_s = time.time() - partial_kept_s
    with contextlib.suppress(FileNotFoundError), os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False) and _is_orphan(entry, before_s):
                removed += _remove_unlocked(Path(entry.path))
    return removed


def _is_orphan(entry: os.DirEntry[str], before_s: float) -> bool:
    if entry.name.endswith(PARTIAL_SUFFIX):
        with contextlib.suppress(FileNotFoundError):
            return entry.stat(follow_symlinks=False).st_mtime <= before_s
    return entry.name.endswith(SUFFIX)


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
