"""File watcher: the files of an application, and whether they changed. It compares times and sizes only."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

FileState = tuple[int, int] | None  # time and size; None if the file does not exist


def loaded_files(directory: str, error: BaseException | None = None) -> list[str]:
    """Return the loaded Python files under the directory, and the file with a syntax error."""
    found = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    cause = error
    while cause is not None:
        if isinstance(cause, SyntaxError):
            found.add(cause.filename)
        cause = cause.__cause__ or cause.__context__
    root = os.path.join(os.path.realpath(directory), "")
    return sorted(file for file in found if file and _is_own(os.path.realpath(file), root))


def _is_own(file: str, root: str) -> bool:
    return file.startswith(root) and file.endswith(".py") and "site-packages" not in file


class FileWatcher:
    """Watches files for changes."""

    def __init__(self) -> None:
        self._states: dict[str, FileState] = {}

    def add(self, files: Iterable[str]) -> None:
        """Watch files from their present state."""
        for file in files:
            if file not in self._states:
                self._states[file] = _state(file)

    def find_changes(self) -> list[str]:
        """Return the files that changed since the last call."""
        now = {file: _state(file) for file in self._states}
        found = [file for file, state in now.items() if state != self._states[file]]
        self._states = now
        return found


def _state(file: str) -> FileState:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
