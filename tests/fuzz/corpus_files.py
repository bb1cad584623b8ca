"""The corpus: a folder for each parser, with a small file for each input, named by its content."""

from __future__ import annotations

import hashlib
from pathlib import Path

FOLDER = Path(__file__).with_name("corpus")


def inputs_of(parser: str) -> dict[str, bytes]:
    """Return the inputs of a parser by file name."""
    return {path.name: path.read_bytes() for path in sorted((FOLDER / parser).iterdir()) if path.is_file()}


def keep(parser: str, data: bytes) -> Path:
    """Store a new failing input. Give it a better name when you fix the parser."""
    path = FOLDER / parser / f"found-{hashlib.sha256(data).hexdigest()[:12]}"
    path.write_bytes(data)
    return path
