"""Lock files of a data directory."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Self

with contextlib.suppress(ImportError):  # not on Windows (windlass.processes.posix)
    import fcntl


class LockFile:
    """Open file for `flock`. A forked child closes its copy at once: otherwise it would hold the lock too.

    The file is only closed, never unlocked: an unlock through a forked copy would release the parent's lock.
    """

    _open: set[LockFile] = set()  # noqa: RUF012 -- open files of this process, shared on purpose

    def __init__(self, path: Path) -> None:
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self._open.add(self)

    def try_lock(self, operation: int) -> bool:
        try:
            fcntl.flock(self.fd, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        if self in self._open:
            self._open.discard(self)
            os.close(self.fd)

    @property
    def is_open(self) -> bool:
        return self in self._open

    @classmethod
    def close_all(cls) -> None:
        for lock in list(cls._open):
            lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=LockFile.close_all)
