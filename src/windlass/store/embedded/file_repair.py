"""Check and repair of the append-only files of an embedded engine that does not run.

The tools are part of the server: started under the name `valkey-check-aof` or `valkey-check-rdb`, its binary is that
tool. Each file is checked separately. Given a manifest, the `valkey-check-aof` of Valkey 9.1 fails: it reads the base
file, a snapshot in Valkey's own format, as commands.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from windlass.core.errors import BadSetting, DiskFull, EngineUnavailable, EngineUnsuitable

from . import data_directory, supervisor
from .data_directory import APPEND_ONLY, BASE, INCREMENT, MANIFEST, Cut, ManifestEntry
from .engine import find_server_binary
from .lock_file import LockFile

with contextlib.suppress(ImportError):  # not on Windows (windlass.processes.posix)
    import fcntl

_ANALYZED = re.compile(r"size=(\d+), ok_up_to=(\d+)")
_NAMED = re.compile(r"^(.+)\.(\d+)\.(base|incr)\.(?:rdb|aof)$")
_COPIED_AT = "%Y%m%dT%H%M%SZ"


class FileState(NamedTuple):
    """State of one append-only file, as its tool reports it."""

    name: str
    kind: str  # BASE or INCREMENT
    bytes: int
    readable: int  # bytes from the start
    problem: str  # empty: the whole file is readable
    is_there: bool = True

    @property
    def is_whole(self) -> bool:
        return not self.problem


class FilesState(NamedTuple):
    files: list[FileState]  # in the order in which the engine reads them
    has_manifest: bool

    @property
    def is_whole(self) -> bool:
        return self.has_manifest and all(file.is_whole for file in self.files)

    @property
    def can_be_repaired(self) -> bool:
        """Whether a repair is possible. Only the last file may be damaged: data after a cut would belong to a lost
        state."""
        return all(file.is_whole or self._has_loose_end(file) for file in self.files)

    def _has_loose_end(self, file: FileState) -> bool:
        return file is self.files[-1] and file.kind == INCREMENT and file.is_there

    @property
    def unreadable(self) -> int:
        return sum(file.bytes - file.readable for file in self.files)


class RepairResult(NamedTuple):
    copy: Path
    cuts: list[Cut]
    is_manifest_new: bool


class AppendOnlyFiles:
    """Append-only files of one data directory. No engine can start there while they are `held`."""

    def __init__(self, data_dir: Path, server: Path | None = None) -> None:
        self.data_dir = data_dir.expanduser().absolute()
        self.directory = self.data_dir / APPEND_ONLY
        self._server = server or find_server_binary()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        if not self.directory.is_dir():
            raise BadSetting(f"{self.data_dir} has no data of an embedded engine; give its directory with --data-dir.")
        with contextlib.ExitStack() as locks:
            for name in (supervisor.USERS_LOCK, supervisor.ENGINE_LOCK):
                lock = locks.enter_context(self._lock(name))
                if not lock.try_lock(fcntl.LOCK_EX):
                    raise EngineUnavailable(
                        f"The engine in {self.data_dir} is in use. Stop all processes that use it (servers, workers), "
                        "then try again; `windlass doctor` checks a running engine."
                    )
            yield

    def _lock(self, name: str) -> LockFile:
        try:
            return LockFile(self.data_dir / name)
        except OSError as error:
            raise BadSetting(
                f"{self.data_dir / name} cannot be opened ({error.strerror}): run this as the user that owns it."
            ) from error

    def check(self) -> FilesState:
        """Check all files without changing them."""
        listed = [entry for entry in data_directory.read_manifest(str(self.data_dir)) if entry.kind != "h"]
        entries = listed or self._entries_by_name()
        return FilesState([self._check(entry) for entry in entries], has_manifest=bool(listed) or not entries)

    def repair(self, state: FilesState) -> RepairResult:
        """Copy all files, then cut off the unreadable end, and write the manifest if it is missing."""
        if not state.can_be_repaired:
            raise self._cannot_repair(state)
        last = state.files[-1]
        entries = None if state.has_manifest else self._complete_entries()
        copy = self._copy()
        cuts = [] if last.is_whole else [self._cut_end(last)]
        if entries is not None:
            self._write_manifest(entries)
        return RepairResult(copy, cuts, entries is not None)

    def _entries_by_name(self) -> list[ManifestEntry]:
        entries = [
            ManifestEntry(found[0], int(found[2]), BASE if found[3] == "base" else INCREMENT)
            for found in map(_NAMED.match, data_directory.data_files(str(self.data_dir)))
            if found
        ]
        return sorted(entries, key=lambda entry: (entry.kind, entry.sequence))

    def _complete_entries(self) -> list[ManifestEntry]:
        """Return the entries of a new manifest, if the file names are unambiguous."""
        entries = self._entries_by_name()
        numbers = [entry.sequence for entry in entries if entry.kind == INCREMENT]
        is_contiguous = numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else False
        if sum(entry.kind == BASE for entry in entries) != 1 or not is_contiguous:
            raise EngineUnsuitable(
                f"The manifest cannot be created from the files in {self.directory}: that needs one base file, and "
                f"increment files without a gap. Found: {', '.join(entry.name for entry in entries)}. Nothing was "
                "changed. Restore the directory from a backup, or move away the files of an unfinished rewrite."
            )
        return entries

    def _check(self, entry: ManifestEntry) -> FileState:
        path = self.directory / entry.name
        try:
            size = path.stat().st_size
        except OSError as error:
            return FileState(entry.name, entry.kind, 0, 0, f"{error.strerror}", is_there=False)
        if entry.name.endswith(".rdb"):
            code, _ = self._run("check-rdb", str(path))
            return FileState(entry.name, entry.kind, size, size if code == 0 else 0, "damaged" if code else "")
        code, output = self._run("check-aof", str(path))
        found = _ANALYZED.search(output)
        readable = int(found[2]) if found else size if code == 0 else 0
        return FileState(entry.name, entry.kind, size, readable, f"damaged after byte {readable:,}" if code else "")

    def _run(self, tool: str, *arguments: str) -> tuple[int, str]:
        brand = "redis" if "redis" in self._server.name else "valkey"
        done = subprocess.run(  # noqa: S603 -- the engine's own binary
            [f"{brand}-{tool}", *arguments],
            executable=self._server,
            input="y\n",
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def _cannot_repair(self, state: FilesState) -> EngineUnsuitable:
        damaged = ", ".join(f"{file.name}: {file.problem}" for file in state.files if not file.is_whole)
        return EngineUnsuitable(
            f"The files in {self.directory} cannot be repaired ({damaged}): only the end of the last file can be cut "
            "off. Nothing was changed. Restore the directory from a backup, or use the newer engine that wrote it."
        )

    def _copy(self) -> Path:
        copy = self.data_dir / f"{APPEND_ONLY}-before-repair-{datetime.now(UTC):{_COPIED_AT}}"
        try:
            shutil.copytree(self.directory, copy)
        except OSError as error:
            shutil.rmtree(copy, ignore_errors=True)
            # copytree reports the errors of all files as text.
            if error.errno == errno.ENOSPC or os.strerror(errno.ENOSPC) in str(error):
                raise DiskFull(
                    f"There is no room for a copy of {self.directory}, and nothing was changed: make room on this disk."
                ) from error
            raise BadSetting(f"{self.directory} cannot be copied, and nothing was changed: {error}") from error
        return copy

    def _cut_end(self, file: FileState) -> Cut:
        path = self.directory / file.name
        code, output = self._run("check-aof", "--fix", str(path))
        if code != 0:
            raise EngineUnsuitable(f"{path} could not be repaired: {output.strip()}")
        size = path.stat().st_size
        cut = Cut(file.name, size, file.bytes - size, time.time_ns() // 1_000_000, "repair")
        data_directory.add_cut(str(self.data_dir), cut)
        return cut

    def _write_manifest(self, entries: list[ManifestEntry]) -> None:
        path = self.directory / MANIFEST
        lines = [f"file {entry.name} seq {entry.sequence} type {entry.kind}\n" for entry in entries]
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        os.replace(f"{path}.new", path)
