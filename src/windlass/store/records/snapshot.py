"""Snapshot of a job's record, for moving jobs between deployments: a new job's record plus its present state."""

from __future__ import annotations

import msgspec

from windlass.core.job import Flag

from .holder_ids import NO_ID
from .record import FINGERPRINT_BYTES, FORMAT, HEADER, HEADER_BYTES


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """State of a job beyond what its producer specified."""

    fingerprint: bytes
    state: int
    flags: int  # except those derived from its content
    sequence: int
    created_at_ms: int
    run_at_ms: int
    started_at_ms: int
    ended_at_ms: int
    attempt: int
    revision: int
    progress: int  # in millionths


_KEPT_FLAGS = int(Flag.HIDDEN | Flag.IN_HISTORY | Flag.HAS_MEMBERS | Flag.ODD_ROUND)


def pack_snapshot(entry: bytes, snapshot: Snapshot) -> bytes:
    """Return the record of an unleased job from its snapshot and its id + record as a new job."""
    _, _, flags, priority, *_, head_bytes = HEADER.unpack_from(entry, 16)
    at = 16 + HEADER_BYTES
    times = (snapshot.sequence, snapshot.created_at_ms, snapshot.run_at_ms, snapshot.started_at_ms)
    numbers = (*times, snapshot.ended_at_ms, 0, 0)  # no token, no deadline
    halves = [half for number in numbers for half in (number >> 32, number & 0xFFFFFFFF)]
    last = (NO_ID, snapshot.attempt, snapshot.revision, snapshot.progress, head_bytes)
    header = HEADER.pack(FORMAT, snapshot.state, flags | snapshot.flags, priority, *halves, *last)
    return header + snapshot.fingerprint + entry[at + FINGERPRINT_BYTES :]


def read_snapshot(entry: bytes) -> Snapshot:
    _, state, flags, _, *halves, _worker, attempt, revision, progress, _ = HEADER.unpack_from(entry, 16)
    numbers = [high << 32 | low for high, low in zip(halves[::2], halves[1::2], strict=True)]
    at = 16 + HEADER_BYTES
    return Snapshot(
        fingerprint=entry[at : at + FINGERPRINT_BYTES],
        state=state,
        flags=flags & _KEPT_FLAGS,
        sequence=numbers[0],
        created_at_ms=numbers[1],
        run_at_ms=numbers[2],
        started_at_ms=numbers[3],
        ended_at_ms=numbers[4],
        attempt=attempt,
        revision=revision,
        progress=progress,
    )
