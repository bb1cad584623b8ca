"""What an attempt's error says, for people's eyes: in one line, and as what many have in common. Our own errors are
maps with type, message and traceback; others write what they like."""

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
    """What is looked for in an error; the rest is passed over, since many are read at once."""

    type: Any = UNSET
    message: Any = UNSET
    traceback: Any = UNSET


_DECODERS: dict[Codec, Any] = {Codec.JSON: msgspec.json.Decoder(_Ours), Codec.MSGPACK: msgspec.msgpack.Decoder(_Ours)}


def _quickly(blob: Blob) -> dict[str, Any] | None:
    """None: it is something else, or cannot be read in this way."""
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


def _decoded(blob: Blob) -> Any:
    written = as_json(blob)
    try:
        return None if written is None else json.loads(bytes(written))
    except (ValueError, RecursionError):  # an integer of thousands of digits
        return None


def error_map(blob: Blob) -> dict[str, Any]:
    """Empty when the error is not one of ours."""
    quick = _quickly(blob)
    if quick is not None:
        return quick
    found = _decoded(blob)
    return found if isinstance(found, dict) and ("message" in found or "type" in found) else {}


def error_line(reason: str, blob: Blob | None) -> str:
    """What went wrong in one line: ValueError: no such order."""
    if blob is None:
        return reason
    error = error_map(blob)
    if not error:
        found = _decoded(blob)
        return f"{reason}: {found if isinstance(found, str) else blob_line(blob)}"
    named = ": ".join(str(error[part]) for part in ("type", "message") if error.get(part))
    return named if reason == "error" else f"{reason}: {named}"


def blob_line(blob: Blob) -> str:
    written = as_json(blob)
    return (blob.data if written is None else bytes(written)).decode(errors="backslashreplace")


def error_contains(attempt: Attempt | None, text: str) -> bool:
    """Does the error hold this text, in any case: in its line, or in its traceback?"""
    if attempt is None:
        return False
    wanted = text.casefold()
    if wanted in error_line(attempt.reason, attempt.error).casefold():
        return True
    error = error_map(attempt.error) if attempt.error is not None else {}
    return wanted in str(error.get("traceback") or "").casefold()


def error_shape(attempt: Attempt | None) -> str:
    """The first line with what differs from job to job masked: ids, numbers, quoted texts."""
    if attempt is None:
        return ""
    line = error_line(attempt.reason, attempt.error).strip().partition("\n")[0][: 4 * SHAPE_MAX]
    for pattern, mask in ((_UUID, "<id>"), (_HEX, "<hex>"), (_NUMBER, "<n>"), (_QUOTED, "<text>")):
        line = pattern.sub(mask, line)
    return line[:SHAPE_MAX]


def literal_parts(shape: str) -> list[str]:
    """What stands in every line of this shape."""
    return [part for part in _MASK.split(shape) if part.strip()]
