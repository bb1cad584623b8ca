"""Text of an attempt's error: one line for people, and a shape that groups similar errors.

Errors of the SDK are maps with type, message and traceback. Other clients may store any value.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
from msgspec import UNSET

from windlass.core.job import Attempt, Blob, Codec

from .codecs import as_json

SHAPE_MAX = 300
_QUOTED = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"")
_UUID = re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.IGNORECASE)
_HEX = re.compile(r"\b0x[0-9a-f]+\b|\b(?=[a-f]*[0-9])[0-9a-f]{8,}\b", re.IGNORECASE)
_MASK = re.compile(r"<(?:id|hex|n|text)>")
_NUMBER = re.compile(r"\d+(?:\.\d+)*")


class _Ours(msgspec.Struct):
    """Fields of an SDK error. Other fields are skipped, because many errors are read at once."""

    type: Any = UNSET
    message: Any = UNSET
    traceback: Any = UNSET


_DECODERS: dict[Codec, Any] = {Codec.JSON: msgspec.json.Decoder(_Ours), Codec.MSGPACK: msgspec.msgpack.Decoder(_Ours)}


def _decode_fast(blob: Blob) -> dict[str, Any] | None:
    """Decode an SDK error. None: it has another form, or cannot be decoded in this way."""
    decoder = _DECODERS.get(blob.codec)
    try:
        found = decoder.decode(blob.data) if decoder else None
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    if found is None or (found.message is UNSET and found.type is UNSET):
        return None
    parts = {"type": found.type, "message": found.message, "traceback": found.traceback}
    given = {name: part for name, part in parts.items() if part is not UNSET}
    return given if all(part is None or isinstance(part, str) for part in given.values()) else None


def _decode(blob: Blob) -> Any:
    encoded = as_json(blob)
    try:
        return None if encoded is None else json.loads(bytes(encoded))
    except (ValueError, RecursionError):  # an integer of thousands of digits
        return None


def error_map(blob: Blob) -> dict[str, Any]:
    """Return the fields of an SDK error, or an empty map for any other error."""
    fast = _decode_fast(blob)
    if fast is not None:
        return fast
    found = _decode(blob)
    return found if isinstance(found, dict) and ("message" in found or "type" in found) else {}


def error_line(reason: str, blob: Blob | None) -> str:
    """Return the error in one line, as in "ValueError: no such order"."""
    if blob is None:
        return reason
    error = error_map(blob)
    if not error:
        found = _decode(blob)
        return f"{reason}: {found if isinstance(found, str) else blob_line(blob)}"
    named = ": ".join(str(error[part]) for part in ("type", "message") if error.get(part))
    return named if reason == "error" else f"{reason}: {named}"


def blob_line(blob: Blob) -> str:
    encoded = as_json(blob)
    return (blob.data if encoded is None else bytes(encoded)).decode(errors="backslashreplace")


def error_contains(attempt: Attempt | None, text: str) -> bool:
    """Return whether the error's line or traceback contains a text, ignoring case."""
    if attempt is None:
        return False
    wanted = text.casefold()
    if wanted in error_line(attempt.reason, attempt.error).casefold():
        return True
    error = error_map(attempt.error) if attempt.error is not None else {}
    return wanted in str(error.get("traceback") or "").casefold()


def error_shape(attempt: Attempt | None) -> str:
    """Return the first line with the parts that differ between jobs masked: ids, numbers, quoted texts."""
    if attempt is None:
        return ""
    line = error_line(attempt.reason, attempt.error).strip().partition("\n")[0][: 4 * SHAPE_MAX]
    for pattern, mask in ((_UUID, "<id>"), (_HEX, "<hex>"), (_NUMBER, "<n>"), (_QUOTED, "<text>")):
        line = pattern.sub(mask, line)
    return line[:SHAPE_MAX]


def literal_parts(shape: str) -> list[str]:
    """Return the texts that every line of this shape contains."""
    return [part for part in _MASK.split(shape) if part.strip()]
