"""Name as a person types it in a filter, as a glob pattern."""

from __future__ import annotations

import re

from .glob import escape_glob

_SPECIAL = re.compile(r"[*?\[]")


def name_pattern(text: str) -> str:
    """Turn a typed name into a glob pattern. Plain text matches any part of a name, `=` the exact name."""
    text = text.strip()
    if text.startswith("="):
        return escape_glob(text[1:])
    return text if not text or _SPECIAL.search(text) else f"*{text}*"
