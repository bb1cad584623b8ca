"""Files of one data directory: its append-only files, the cuts in them, and a watch for their deletion.

The supervisor runs as a script without the package and imports this module from its own folder. So this module imports
the standard library only.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import time
from typing import NamedTuple

with contextlib.suppress(ImportError):  # not on Windows (windlass.processes.posix)
    import fcntl

APPEND_ONLY = "appendonlydir"
MANIFEST = "appendonly.aof.manifest"
CUTS = "cuts.json"
CUTS_KEPT = 20

BASE, INCREMENT = "b", "i"
_ENTRY = re.compile(r'^file "?(\S+?)"? seq (\d+) type ([bhi])', re.MULTILINE)
_DATA_FILE = re.compile(r"\.(base|incr)\.(rdb|aof)$")
_TRUNCATION = re.compile(r"!!! Truncating the AOF (\S+) at offset (\d+) !!!")
# Log lines of an engine with `appendfsync always`, which exits when it cannot write.
_WRITE_ERROR = re.compile(
    r"(?:Error writing to the AOF file|Can't persist AOF for fsync error[^:\n]*): ([^\n]+?)(?:\. Exiting\.\.\.)?$",
    re.MULTILINE,
)
_SHORT_WRITE = "Short write while writing to the AOF file"


class ManifestEntry(NamedTuple):
    """One line of a manifest."""

    name: str
    sequence: int
    kind: str  # BASE, INCREMENT, or h: history, which the engine is about to delete


class Cut(NamedTuple):
    """Bytes that are no longer part of an append-only file."""

    file: str
    offset: int  # where the file ends now
    bytes: int
    at_ms: int
    by: str  # "start": the engine when it loaded the file; "repair": `windlass engine repair`


def read_manifest(data_dir: str) -> list[ManifestEntry]:
    """Return the entries of the manifest; an empty list without a manifest."""
    try:
        with open(os.path.join(data_dir, APPEND_ONLY, MANIFEST), encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return []
    return [ManifestEntry(name, int(sequence), kind) for name, sequence, kind in _ENTRY.findall(text)]


def data_files(data_dir: str) -> list[str]:
    """Return the names of all existing append-only files, whether or not the manifest lists them."""
    try:
        return sorted(filter(_DATA_FILE.search, os.listdir(os.path.join(data_dir, APPEND_ONLY))))
    except OSError:
        return []


def file_sizes(data_dir: str) -> dict[str, int]:
    sizes = {}
    for name in data_files(data_dir):
        with contextlib.suppress(OSError):
            sizes[name] = os.path.getsize(os.path.join(data_dir, APPEND_ONLY, name))
    return sizes


def find_start_obstacle(data_dir: str) -> str | None:
    """Return why an engine must not be started here, or None. Without a manifest, it would start empty beside its data
    and overwrite it."""
    found = data_files(data_dir)
    if not found or read_manifest(data_dir):
        return None
    return (
        f"{os.path.join(data_dir, APPEND_ONLY)} has data ({', '.join(found[:3])}) but no {MANIFEST} that lists it, "
        "and the engine would start empty. Restore the manifest from a backup, or create one from the files with "
        f"`windlass engine repair --data-dir {data_dir}`, which keeps a copy"
    )


# Cuts


def find_cut(log: str, sizes: dict[str, int], at_ms: int) -> Cut | None:
    """Find in the log of a start what the engine cut off. `sizes`: sizes of the files before the start."""
    found = _TRUNCATION.search(log)
    if found is None:
        return None
    name, offset = os.path.basename(found[1]), int(found[2])
    return Cut(name, offset, max(0, sizes.get(name, offset) - offset), at_ms, "start")


def find_write_error(log: str) -> str | None:
    """Find in the log of the last run why the engine could not write."""
    found = _WRITE_ERROR.search(log)
    if found is not None:
        return found[1]
    return "not all bytes were written" if _SHORT_WRITE in log else None


def read_cuts(data_dir: str) -> list[Cut]:
    try:
        with open(os.path.join(data_dir, CUTS), encoding="utf-8") as file:
            return [Cut(**entry) for entry in json.load(file)]
    except (OSError, ValueError, TypeError):
        return []


def add_cut(data_dir: str, cut: Cut) -> None:
    kept = [*read_cuts(data_dir), cut][-CUTS_KEPT:]
    path = os.path.join(data_dir, CUTS)
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        json.dump([entry._asdict() for entry in kept], file)
    os.replace(f"{path}.new", path)


# Deletion and replacement


def is_same_file(path: str, fd: int) -> bool:
    """Return whether the path still leads to the open file. The inode number of an open file is not reused."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(fd))
    except OSError:
        return False


class DirectoryWatch:
    """Detects that the directory of a running engine was deleted or replaced.

    The engine does not notice: its files are open, and writes to a deleted file succeed. So the paths of an open lock
    file and of the append-only file that is being written must lead to the same inodes as before. Other files may be
    missing without harm to new writes: a rewrite creates them again.
    """

    def __init__(self, data_dir: str, lock_path: str, lock_fd: int) -> None:
        self._data_dir = data_dir
        self._lock_path = lock_path
        self._lock_fd = lock_fd
        self._written: tuple[str, int] | None = None  # name and inode of the file being appended to
        self._directories: list[int] = []
        self._is_notified = False

    def is_same_directory(self) -> bool:
        return is_same_file(self._lock_path, self._lock_fd)

    def is_intact(self) -> bool:
        if not self.is_same_directory():
            return False
        while True:
            name = self._written_name()
            if name is None:  # nothing is written yet, or persistence is off
                return True
            inode = self._inode(name)
            if inode is not None and self._known_inode(name) in (None, inode):
                self._written = name, inode
                return True
            # A rewrite may have replaced the file after its name was read: then the manifest has another name.
            if self._written_name() == name:
                return False

    def _known_inode(self, name: str) -> int | None:
        return self._written[1] if self._written is not None and self._written[0] == name else None

    def _written_name(self) -> str | None:
        names = [entry.name for entry in read_manifest(self._data_dir) if entry.kind == INCREMENT]
        return names[-1] if names else self._written[0] if self._written else None

    def _inode(self, name: str) -> int | None:
        try:
            return os.stat(os.path.join(self._data_dir, APPEND_ONLY, name)).st_ino
        except OSError:
            return None

    def enable_notifications(self) -> None:
        """Make changes in the directories end `wait` at once, where the system supports it (Linux).

        This uses dnotify, not inotify: the standard library has it, and a signal is enough. Call it before any thread
        starts: the signal must be blocked in all of them.
        """
        if not hasattr(fcntl, "F_NOTIFY"):
            return
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGIO})
        self._is_notified = self._watch_directory(self._data_dir)

    def watch_append_only(self) -> None:
        """Do the same for the directory of the append-only files, which the engine creates."""
        if self._is_notified and len(self._directories) < 2:
            self._watch_directory(os.path.join(self._data_dir, APPEND_ONLY))

    def _watch_directory(self, path: str) -> bool:
        changes = fcntl.DN_DELETE | fcntl.DN_RENAME | fcntl.DN_MULTISHOT
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            return False
        try:
            fcntl.fcntl(fd, fcntl.F_NOTIFY, changes)
        except OSError:
            os.close(fd)
            return False
        self._directories.append(fd)
        return True

    def wait(self, limit_s: float) -> None:
        """Wait for a change, at most `limit_s`: the system does not report a rename of a parent directory, or a
        mount."""
        if self._is_notified:
            signal.sigtimedwait({signal.SIGIO}, limit_s)
        else:
            time.sleep(limit_s)
