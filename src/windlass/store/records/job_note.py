"""Note of a record, at the end of its extras: the Python side of lua/lib/jobs/job_note.lua."""

from __future__ import annotations

import struct

_SIZES = struct.Struct(">HH")  # bytes used, bytes of room


def pack_note(text: bytes) -> bytes:
    return text + _SIZES.pack(len(text), len(text))


def read_note(extras: bytes) -> tuple[str, bytes]:
    """Return the note and the other extras."""
    used, room = _SIZES.unpack_from(extras, len(extras) - _SIZES.size)
    at = len(extras) - _SIZES.size - room
    return extras[at : at + used].decode(), extras[:at]
