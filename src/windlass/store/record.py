"""The stored form of a job: the Python side of lua/lib/record.lua. Packing makes what enqueue stores; unpacking reads
what any script returns."""

from __future__ import annotations

import hashlib
import struct

import msgspec

from ..core.job import Attempt, Blob, Codec, Flag, Job, NewJob
from ..core.retry import ENDLESS, Backoff
from ..core.states import LEASED, State

# 6-byte integers are read as a 2-byte and a 4-byte half.
_HEADER = struct.Struct(">BBHiHIHIHIHIHIHIHI16sIIIIH")
_ATTEMPT = struct.Struct(">IHIHI16sB")
HEADER_BYTES = _HEADER.size
FORMAT = 1
NOBODY = bytes(16)
_CODEC_BITS = 3
_ZERO_6 = bytes(6)
_BEHIND_READY = bytes(6 * 4 + 16 + 4)  # started, ended, token, deadline, worker, attempt
_FIRST_REVISION = (1).to_bytes(4, "big") + bytes(8)  # revision, progress, pending
_STATES = [State.SCHEDULED, *State]  # by code; 0 is never read


class Extras(msgspec.Struct, omit_defaults=True, rename={"retry": "r", "trace": "t"}):
    """What a record carries that no script looks at."""

    retry: Backoff = ENDLESS
    trace: str = ""


_NO_EXTRAS = Extras()
_encode = msgspec.msgpack.Encoder().encode
_decode_extras = msgspec.msgpack.Decoder(Extras).decode


def _short(text: bytes) -> bytes:
    return len(text).to_bytes(1, "big") + text


def _long(text: bytes) -> bytes:
    return len(text).to_bytes(2, "big") + text


def _policy(job: NewJob, expires_at_ms: int) -> bytes:
    tries = job.retry.tries
    if tries == 0 and not (job.lease_ms or job.timeout_ms or job.result_ttl_ms or expires_at_ms):
        return b""
    numbers = (job.lease_ms, job.timeout_ms, job.result_ttl_ms, expires_at_ms)
    return tries.to_bytes(4, "big") + b"".join(number.to_bytes(6, "big") for number in numbers)


def _fingerprint(job: NewJob, codec: int) -> bytes:
    """Tells a repeated enqueue from another job under the same id. Times are left out: a delay is counted from now."""
    identity = f"{job.queue}\0{job.name}\0{job.lane}\0{job.unique}\0{job.priority}\0{codec}\0".encode()
    return hashlib.blake2b(identity + job.payload.data, digest_size=8).digest()


def pack(job: NewJob, job_id: bytes, run_at_ms: int, expires_at_ms: int) -> bytes:
    """Id and record of a new job; the engine fills in state, sequence and creation time."""
    flags = int(job.payload.codec)
    if job.retake:
        flags |= Flag.RETAKE
    if job.unique_while_kept:
        flags |= Flag.UNIQUE_WHILE_KEPT
    extras = b"" if job.retry == _NO_EXTRAS.retry and not job.trace else _encode(Extras(job.retry, job.trace))
    strings = b"".join(
        (
            _fingerprint(job, flags & _CODEC_BITS),
            _short(_policy(job, expires_at_ms)),
            _short(job.queue.encode()),
            _long(job.name.encode()),
            _short(job.lane.encode()),
            _long(job.unique.encode()),
            _long("\0".join(job.tags).encode()),
            _long(b""),  # links to other jobs
            _long(extras),
        )
    )
    return b"".join(
        (
            job_id,
            b"\x01\x00",  # format, state
            flags.to_bytes(2, "big"),
            job.priority.to_bytes(4, "big", signed=True),
            _ZERO_6,  # sequence
            _ZERO_6,  # creation
            run_at_ms.to_bytes(6, "big"),
            _BEHIND_READY,
            _FIRST_REVISION,
            (HEADER_BYTES + len(strings)).to_bytes(2, "big"),
            strings,
            job.payload.data,
        )
    )


def unpack(entry: bytes, *, is_whole: bool = True) -> Job:
    """A job from id + record."""
    (
        _, state_code, flags, priority,
        sequence_high, sequence, created_high, created, ready_high, ready, started_high, started, ended_high, ended,
        token_high, token, deadline_high, deadline, worker, attempt, revision, progress, _pending, head_bytes,
    ) = _HEADER.unpack_from(entry, 16)  # fmt: skip
    at = 16 + HEADER_BYTES + 8
    policy, at = _read_short(entry, at)
    queue, at = _read_short(entry, at)
    name, at = _read_long(entry, at)
    lane, at = _read_short(entry, at)
    unique, at = _read_long(entry, at)
    tags, at = _read_long(entry, at)
    _links, at = _read_long(entry, at)
    extras_bytes, at = _read_long(entry, at)
    extras = _decode_extras(extras_bytes) if extras_bytes else _NO_EXTRAS
    state = _STATES[state_code]
    is_leased = state in LEASED
    return Job(
        id=entry[:16],
        state=state,
        queue=queue.decode(),
        name=name.decode(),
        payload=Blob(entry[16 + head_bytes :], Codec(flags & _CODEC_BITS)),
        payload_is_whole=is_whole,
        priority=priority,
        sequence=sequence_high << 32 | sequence,
        created_at_ms=created_high << 32 | created,
        run_at_ms=ready_high << 32 | ready,
        started_at_ms=(started_high << 32 | started) or None,
        ended_at_ms=(ended_high << 32 | ended) or None,
        expires_at_ms=int.from_bytes(policy[22:28], "big") or None,
        lane=lane.decode(),
        unique=unique.decode() or None,
        retry=extras.retry,
        lease_ms=int.from_bytes(policy[4:10], "big"),
        timeout_ms=int.from_bytes(policy[10:16], "big"),
        result_ttl_ms=int.from_bytes(policy[16:22], "big"),
        tags=tuple(tags.decode().split("\0")) if tags else (),
        trace=extras.trace,
        attempt=attempt,
        revision=revision,
        progress=progress / 1_000_000,
        is_cancel_requested=bool(flags & Flag.CANCEL_REQUESTED),
        is_overdue=bool(flags & Flag.RETAKEABLE),
        is_history=bool(flags & Flag.IN_HISTORY),
        worker=worker if worker != NOBODY else None,
        lease_token=(token_high << 32 | token) if is_leased else 0,
        lease_deadline_at_ms=((deadline_high << 32 | deadline) or None) if is_leased else None,
    )


def _read_short(entry: bytes, at: int) -> tuple[bytes, int]:
    end = at + 1 + entry[at]
    return entry[at + 1 : end], end


def _read_long(entry: bytes, at: int) -> tuple[bytes, int]:
    end = at + 2 + (entry[at] << 8 | entry[at + 1])
    return entry[at + 2 : end], end


def pack_blob(blob: Blob | None) -> bytes:
    """A result or an error: one byte of codec, then the content. Nothing is the empty string."""
    return b"" if blob is None else bytes([blob.codec]) + blob.data


def unpack_blob(stored: bytes | None) -> Blob | None:
    return Blob(stored[1:], Codec(stored[0])) if stored else None


def unpack_attempt(entry: bytes) -> Attempt:
    number, started_high, started, ended_high, ended, worker, reason_bytes = _ATTEMPT.unpack_from(entry)
    at = _ATTEMPT.size
    return Attempt(
        attempt=number,
        started_at_ms=(started_high << 32 | started) or None,
        ended_at_ms=ended_high << 32 | ended,
        worker=worker if worker != NOBODY else None,
        reason=entry[at : at + reason_bytes].decode(),
        error=unpack_blob(entry[at + reason_bytes :]),
    )
