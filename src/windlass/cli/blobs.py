"""What payloads, results and errors hold, for people's eyes."""

from __future__ import annotations

import msgspec

from windlass.core.job import Blob
from windlass.core.text.codecs import as_json
from windlass.core.text.error_text import error_map

ONE_LINE_MAX = 100


def as_text(blob: Blob) -> str:
    """One line when it is short, indented when it is not; what cannot be decoded as far as it can be read."""
    written = as_json(blob)
    if written is None:
        return blob.data.decode(errors="backslashreplace")
    line = bytes(written)
    return (line if len(line) <= ONE_LINE_MAX else msgspec.json.format(line, indent=2)).decode()


def error_text(blob: Blob) -> str:
    """All that is known: the traceback where there is one."""
    error = error_map(blob)
    return str(error["traceback"]).rstrip() if error.get("traceback") else as_text(blob)
