"""The corpus: a folder for each parser, a small file for each input, named by what it is."""

from __future__ import annotations

import hashlib
from pathlib import Path

FOLDER = Path(__file__).with_name("corpus")


def inputs_of(parser: str) -> dict[str, bytes]:
    """By the name of the file."""
    return {path.name: path.read_bytes() for path in sorted((FOLDER / parser).iterdir()) if path.is_file()}


def keep(parser: str, data: bytes) -> Path:
    """A new failing input; whoever mends it gives it a better name."""
    path = FOLDER / parser / f"found-{hashlib.sha256(data).hexdigest()[:12]}"
    path.write_bytes(data)
    return path
