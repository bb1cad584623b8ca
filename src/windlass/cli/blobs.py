"""Payloads, results and errors as readable text."""

from __future__ import annotations

import msgspec

from windlass.core.job import Blob
from windlass.core.text.codecs import as_json
from windlass.core.text.error_text import error_map

ONE_LINE_MAX = 100


def blob_text(blob: Blob) -> str:
    """Format a value as JSON: in one line if it is short, else indented. Bytes that cannot be decoded are escaped."""
    json_text = as_json(blob)
    if json_text is None:
        return blob.data.decode(errors="backslashreplace")
    line = bytes(json_text)
    return (line if len(line) <= ONE_LINE_MAX else msgspec.json.format(line, indent=2)).decode()


def error_text(blob: Blob) -> str:
    """Format an error: its traceback if it has one, else the whole value."""
    error = error_map(blob)
    return str(error["traceback"]).rstrip() if error.get("traceback") else blob_text(blob)
