"""Folder of backups: names by instant, and removal of the oldest."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from pathlib import Path

from windlass.core.errors import WindlassError

_NAME = re.compile(r"windlass-\d{8}T\d{6}Z\.jsonl\.gz")
_UNFINISHED = re.compile(r"\.windlass-\d{8}T\d{6}Z\.jsonl\.gz\.\d+\.unfinished")
UNFINISHED_S = 86_400.0  # of backups that were killed


def new_backup(folder: Path) -> Path:
    """Return the file of a backup that begins now. Names sort by instant."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise WindlassError(f"{folder} cannot be used for backups: {error.strerror or error}.") from error
    return folder / f"windlass-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.jsonl.gz"


def remove_old_backups(folder: Path, keep: int) -> list[Path]:
    """Remove all but the newest backups, and unfinished files that nothing writes any more. Return removed backups."""
    try:
        files = sorted(folder.iterdir())
        old = [file for file in files if _NAME.fullmatch(file.name)][:-keep]
        dead = [file for file in files if _UNFINISHED.fullmatch(file.name) and _age_s(file) > UNFINISHED_S]
        for file in (*old, *dead):
            file.unlink(missing_ok=True)
    except OSError as error:
        raise WindlassError(f"Old backups in {folder} cannot be removed: {error.strerror or error}.") from error
    return old


def _age_s(file: Path) -> float:
    try:
        return time.time() - file.stat().st_mtime
    except FileNotFoundError:  # another backup has completed or removed it
        return 0.0
