"""A disk that forgets at a power cut what was not synced. The engine runs with a shim (synced.c), which records up to
which size its append-only files are on the disk; a cut drops the rest, completely or in part.

A killed process alone loses nothing, because its writes are already in the operating system."""

from __future__ import annotations

import contextlib
import functools
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).with_name("synced.c")
SKIPPED = "`power-loss` was left out:"
SYNC_DELAY_US = 300  # as a fast disk needs; a kill then often comes between a write and its sync
BLOCK = 4096
ZEROS = 0.3  # share of the torn files that keep their length
COMPILE_LIMIT_S = 60.0


class Tear(NamedTuple):
    """What a power cut did to a file."""

    unsynced: int  # bytes that the disk had not promised to keep
    kept: int  # of these
    has_zeros: bool  # the file has its length, and its last blocks were never written


def unavailable_reason() -> str:
    """Return why power cannot be cut here, and what to do about it; empty if it can."""
    if sys.platform != "linux":
        return f"{SKIPPED} it needs Linux."
    if not shutil.which("cc"):
        return f"{SKIPPED} there is no C compiler. Install the package gcc."
    return ""


@functools.cache
def _compiled() -> tuple[tempfile.TemporaryDirectory[str], Path]:
    """Compile the shim once for this process. The folder is removed with the process."""
    folder = tempfile.TemporaryDirectory(prefix="wl-synced-")
    library = Path(folder.name) / "synced.so"
    command = ["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True, capture_output=True, timeout=COMPILE_LIMIT_S)
    return folder, library


class VolatileDisk:
    def __init__(self, folder: Path, *, delay_us: int = SYNC_DELAY_US) -> None:
        self._folder = folder
        self._delay_us = delay_us
        folder.mkdir(parents=True, exist_ok=True)

    def environment(self, preload: str = "") -> dict[str, str]:
        """Return the environment of an engine on this disk, which also preloads `preload`."""
        libraries = ":".join(filter(None, (str(_compiled()[1]), preload)))
        return {
            "LD_PRELOAD": libraries,
            "FAULTS_SYNCED": str(self._folder.absolute()),
            "FAULTS_SYNC_DELAY_US": str(self._delay_us),
        }

    def cut(self, files: Path, rng: random.Random, *, may_leave_zeros: bool) -> list[Tear]:
        """Drop what was not synced of the append-only files in a folder, as a power cut does. The engine is dead."""
        tears = [self._tear(path, rng, may_leave_zeros) for path in sorted(files.glob("*.incr.aof"))]
        return [tear for tear in tears if tear.unsynced]

    def _tear(self, path: Path, rng: random.Random, may_leave_zeros: bool) -> Tear:
        status = path.stat()
        synced = min(self._synced_size(status.st_ino), status.st_size)
        kept = rng.choice(HOW)(status.st_size, synced, rng)
        has_zeros = may_leave_zeros and kept < status.st_size and rng.random() < ZEROS
        os.truncate(path, kept)
        if has_zeros:  # the length of the file was stored before its last blocks
            os.truncate(path, status.st_size)
        self._write_size(status.st_ino, path.stat().st_size)
        return Tear(status.st_size - synced, kept - synced, has_zeros)

    def _synced_size(self, inode: int) -> int:
        with contextlib.suppress(FileNotFoundError):
            content = (self._folder / str(inode)).read_bytes()
            return int(struct.unpack("=Q", content)[0]) if len(content) == 8 else 0
        return 0

    def _write_size(self, inode: int, size: int) -> None:
        (self._folder / str(inode)).write_bytes(struct.pack("=Q", size))


def _nothing(size: int, synced: int, rng: random.Random) -> int:
    return synced


def _anywhere(size: int, synced: int, rng: random.Random) -> int:
    return rng.randint(synced, size)


def _whole_blocks(size: int, synced: int, rng: random.Random) -> int:
    return max(synced, rng.randint(synced, size) // BLOCK * BLOCK)


# The size that is left: a disk may have written more than it has promised.
HOW: tuple[Callable[[int, int, random.Random], int], ...] = (_nothing, _nothing, _anywhere, _whole_blocks)


def describe(tears: list[Tear]) -> str:
    if not tears:
        return "nothing was unsynced"
    unsynced, kept = sum(tear.unsynced for tear in tears), sum(tear.kept for tear in tears)
    zeros = ", zeros in the place of the last blocks" if any(tear.has_zeros for tear in tears) else ""
    return f"{unsynced - kept} of {unsynced} unsynced bytes dropped{zeros}"
