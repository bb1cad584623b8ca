"""Where whole files are kept: a directory, or a bucket (s3.py). All of this blocks: it runs in threads."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from .order import path_of
from .temp_file import TempFile

NO_METADATA: Mapping[str, str] = {}


class Storage(Protocol):
    """OSError: the disk's trouble. Trouble: what else went wrong."""

    def check(self) -> None:
        """Whether it could be used at all, before anything is fetched for it."""

    def keep(self, temp: TempFile, download_id: str, mime_type: str, metadata: Mapping[str, str]) -> None: ...

    def remove(self, download_id: str) -> None:
        """What is not there is removed."""


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
