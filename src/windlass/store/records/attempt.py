"""Stored form of results, errors and attempts."""

from __future__ import annotations

import struct

from windlass.core.job import Attempt, Blob, Codec

from .holder_ids import NO_ID, visible_worker

_ATTEMPT = struct.Struct(">IHIHI16sB")


def pack_blob(blob: Blob | None) -> bytes:
    """Pack a result or an error: one byte of codec, then the content. None is the empty string."""
    return b"" if blob is None else bytes([blob.codec]) + blob.data


def unpack_blob(stored: bytes | None) -> Blob | None:
    return Blob(stored[1:], Codec(stored[0])) if stored else None


def pack_attempt(attempt: Attempt) -> bytes:
    started, ended, reason = attempt.started_at_ms or 0, attempt.ended_at_ms, attempt.reason.encode()
    halves = (started >> 32, started & 0xFFFFFFFF, ended >> 32, ended & 0xFFFFFFFF)
    head = _ATTEMPT.pack(attempt.attempt, *halves, attempt.worker or NO_ID, len(reason))
    return head + reason + pack_blob(attempt.error)


def unpack_attempt(entry: bytes) -> Attempt:
    number, started_high, started, ended_high, ended, worker, reason_bytes = _ATTEMPT.unpack_from(entry)
    at = _ATTEMPT.size
    return Attempt(
        attempt=number,
        started_at_ms=(started_high << 32 | started) or None,
        ended_at_ms=ended_high << 32 | ended,
        worker=visible_worker(worker),
        reason=entry[at : at + reason_bytes].decode(),
        error=unpack_blob(entry[at + reason_bytes :]),
    )
