"""Records of jobs as they stand, for who moves them between deployments: as a new job's (record.py), and what became of
it."""

from __future__ import annotations

import msgspec

from windlass.core.job import Flag

from .record import FINGERPRINT_BYTES, FORMAT, HEADER, HEADER_BYTES, NOBODY


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """What a record says of a job beyond what was given when it was enqueued."""

    fingerprint: bytes
    state: int
    flags: int  # besides those of its content
    sequence: int
    created_at_ms: int
    run_at_ms: int
    started_at_ms: int
    ended_at_ms: int
    attempt: int
    revision: int
    progress: int  # in millionths


_KEPT_FLAGS = int(Flag.HIDDEN | Flag.IN_HISTORY | Flag.HAS_MEMBERS | Flag.ODD_ROUND)


def pack_snapshot(entry: bytes, standing: Snapshot) -> bytes:
    """The record of a job as it stands, from the id + record of the same job as a new one. Nobody holds it."""
    _, _, flags, priority, *_, head_bytes = HEADER.unpack_from(entry, 16)
    at = 16 + HEADER_BYTES
    times = (standing.sequence, standing.created_at_ms, standing.run_at_ms, standing.started_at_ms)
    numbers = (*times, standing.ended_at_ms, 0, 0)  # no token, no deadline
    halves = [half for number in numbers for half in (number >> 32, number & 0xFFFFFFFF)]
    last = (NOBODY, standing.attempt, standing.revision, standing.progress, head_bytes)
    header = HEADER.pack(FORMAT, standing.state, flags | standing.flags, priority, *halves, *last)
    return header + standing.fingerprint + entry[at + FINGERPRINT_BYTES :]


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
