"""What payloads, results and errors hold, for people's eyes."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from ..core.job import Blob
from ..core.transcoding import as_json

ONE_LINE_MAX = 100


def as_text(blob: Blob) -> str:
    """One line when it is short, indented when it is not; what cannot be decoded as far as it can be read."""
    written = as_json(blob)
    if written is None:
        return blob.data.decode(errors="backslashreplace")
    line = bytes(written)
    return (line if len(line) <= ONE_LINE_MAX else msgspec.json.format(line, indent=2)).decode()


def as_line(blob: Blob) -> str:
    written = as_json(blob)
    return (blob.data if written is None else bytes(written)).decode(errors="backslashreplace")


# Errors of attempts. Ours are maps with type, message and traceback; others write what they like.


def _error(blob: Blob) -> dict[str, Any]:
    written = as_json(blob)
    try:
        found = None if written is None else json.loads(bytes(written))
    except (ValueError, RecursionError):  # an integer of thousands of digits
        found = None
    return found if isinstance(found, dict) and ("message" in found or "type" in found) else {}


def error_line(reason: str, blob: Blob | None) -> str:
    """What went wrong in one line: ValueError: no such order."""
    if blob is None:
        return reason
    error = _error(blob)
    if not error:
        return f"{reason}: {as_line(blob)}"
    named = ": ".join(str(error[part]) for part in ("type", "message") if error.get(part))
    return named if reason == "error" else f"{reason}: {named}"


def error_text(blob: Blob) -> str:
    """All that is known: the traceback where there is one."""
    error = _error(blob)
    return str(error["traceback"]).rstrip() if error.get("traceback") else as_text(blob)
