"""Search for a text in payloads."""

from __future__ import annotations

import msgspec

from windlass.core.job import Blob

from .error_text import blob_line


def contains_text(payload: Blob, text: str) -> bool:
    """Return whether a payload contains a text, ignoring case. The payload is read as compact JSON, or as it is if JSON
    cannot express it."""
    wanted = text.casefold()
    written = blob_line(payload)
    return wanted in written.casefold() or ("\\u" in written and wanted in _unescape(written).casefold())


def _unescape(written: str) -> str:
    """Return JSON with its characters in place of escapes such as \\u00e4."""
    try:
        return msgspec.json.encode(msgspec.json.decode(written)).decode()
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return written
