"""Storage of complete files: a directory, or a bucket (s3.py). All methods block, so they run in threads."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from .order import path_of
from .temp_file import TempFile

NO_METADATA: Mapping[str, str] = {}


class Storage(Protocol):
    """Storage of files. Methods raise OSError for disk errors, and DownloadFailure for other errors."""

    def check(self) -> None:
        """Check that the storage is usable, before a file is fetched."""

    def keep(self, temp: TempFile, download_id: str, mime_type: str, metadata: Mapping[str, str]) -> None: ...

    def remove(self, download_id: str) -> None:
        """Remove a file. A missing file is no error."""


class Directory:
    def __init__(self, root: Path) -> None:
        self._root = root

    def check(self) -> None:
        pass

    def keep(self, temp: TempFile, download_id: str, mime_type: str, metadata: Mapping[str, str]) -> None:
        temp.move(self._root / path_of(download_id))

    def remove(self, download_id: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            (self._root / path_of(download_id)).unlink()
