"""Stored form of a job: the Python side of lua/lib/jobs/record.lua.

Packing makes the record that enqueue stores; unpacking reads the records that scripts return.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from windlass.core.callbacks.callback import destination_digest
from windlass.core.job import NULL_BLOB, Blob, Callback, Codec, Flag, Job, NewJob, OnFailure
from windlass.core.retry import ENDLESS, Backoff
from windlass.core.states import LEASED, State

from .flow_record import pack_flow_ref, unpack_flow_ref
from .holder_ids import NO_ID, visible_worker
from .job_note import pack_note, read_note
from .job_tags import join_tags, split_tags

# 6-byte integers are read as a 2-byte and a 4-byte half.
HEADER = struct.Struct(">BBIiHIHIHIHIHIHIHI16sIIIH")
HEADER_BYTES = HEADER.size
FORMAT = 1
_CODEC_BITS = 3
# Header of a new job: format, state, flags, priority, (sequence, creation), ready time, (started, ended, token,
# deadline, worker, attempt), revision, (progress), length of header and strings.
_NEW = struct.Struct(">BBIi12xHI44xI4xH")
FINGERPRINT_BYTES = 8
FIRST_REVISION = 1
# As ints: an operation on an IntFlag or a look-up in an IntEnum costs as much as the rest of a record.
_RETAKE, _UNIQUE_WHILE_KEPT = int(Flag.RETAKE), int(Flag.UNIQUE_WHILE_KEPT)
_REPEATS = int(Flag.REPEATS)
_HIDDEN, _WHOLE_SECONDS = int(Flag.HIDDEN), int(Flag.WHOLE_SECONDS)
_HELD, _JOINS, _HAS_MEMBERS = int(Flag.HELD), int(Flag.JOINS), int(Flag.HAS_MEMBERS)
_CANCEL_REQUESTED, _RETAKEABLE, _IN_HISTORY = int(Flag.CANCEL_REQUESTED), int(Flag.RETAKEABLE), int(Flag.IN_HISTORY)
_CALLBACK_ON = {
    "finished": int(Flag.OWES_FINISHED),
    "failed": int(Flag.OWES_FAILED),
    "cancelled": int(Flag.OWES_CANCELLED),
}
_HAS_CALLBACK = int(Flag.HAS_CALLBACK)
_HAS_NOTE, _LEAVES_TOMBSTONE = int(Flag.HAS_NOTE), int(Flag.LEAVES_TOMBSTONE)
_ENDED_BY_MEMBER, _DURABLE, _NEEDS_STEPS = int(Flag.ENDED_BY_MEMBER), int(Flag.DURABLE), int(Flag.NEEDS_STEPS)
REMEMBERED_BYTES = 512  # longer tails are rarely equal
_CODECS = [*Codec, Codec.RAW]
_STATES = [State.SCHEDULED, *State]  # by code; 0 is never read
_SUSPENDED = int(State.SUSPENDED)
_IS_LEASED = [state in LEASED for state in _STATES]


class ScheduleOrigin(msgspec.Struct, frozen=True):
    """Schedule that created a job, and the instant it was planned for."""

    schedule: str
    planned_at_ms: int


class Extras(
    msgspec.Struct,
    omit_defaults=True,
    rename={
        "destination": "d",
        "retry": "r",
        "trace": "t",
        "schedule": "s",
        "planned_at_ms": "p",
        "callback": "c",
        "lease_rule": "l",
    },
):
    """Fields of a record that scripts do not read, except the first, which they find without decoding the rest
    (lua/lib/pending_callbacks.lua). A repeat rule, which scripts read, precedes the extras."""

    destination: str = ""  # digest of the callback's destination
    retry: Backoff = ENDLESS
    trace: str = ""
    schedule: str = ""
    planned_at_ms: int = 0
    callback: Callback | None = None
    lease_rule: str = ""


ON_FAILURE: tuple[OnFailure, ...] = ("collect", "fail", "ignore")
LIMITS_SEPARATOR = "\2"
_NO_EXTRAS = Extras()
NO_ORIGIN = ScheduleOrigin("", 0)
_encode = msgspec.msgpack.Encoder().encode
_decode_extras = msgspec.msgpack.Decoder(Extras).decode


def _short(text: bytes) -> bytes:
    return len(text).to_bytes(1, "big") + text


def _long(text: bytes) -> bytes:
    return len(text).to_bytes(2, "big") + text


@lru_cache(1024)
def _place(queue: str, name: str, lane: str) -> bytes:
    return _short(queue.encode()) + _long(name.encode()) + _short(lane.encode())


def _policy_on_failure(job: NewJob) -> OnFailure:
    return job.on_failure or ("fail" if job.after or job.joins else "collect")


def _links(job: NewJob, limits: str) -> bytes:
    on_failure = _policy_on_failure(job)
    if not job.parent and not limits and on_failure == "collect" and job.flow is None:
        return b""
    links = (job.parent or NO_ID) + bytes([ON_FAILURE.index(on_failure)]) + _long(limits.encode())
    return links if job.flow is None else links + pack_flow_ref(job.flow)


def _labels(job: NewJob, entries: Sequence[str]) -> bytes:
    if not (job.unique or job.tags or job.index or entries):
        return b"\0\0\0\0"
    return _long(job.unique.encode()) + _long(join_tags(job.tags, job.index, entries).encode())


def _policy(job: NewJob, expires_at_ms: int) -> bytes:
    tries = job.retry.tries
    if tries == 0 and not (job.lease_ms or job.timeout_ms or job.result_ttl_ms or expires_at_ms or job.tombstone_ms):
        return b""
    numbers: tuple[int, ...] = (job.lease_ms, job.timeout_ms, job.result_ttl_ms, expires_at_ms)
    if job.tombstone_ms:
        numbers += (job.tombstone_ms,)
    return tries.to_bytes(4, "big") + b"".join(number.to_bytes(6, "big") for number in numbers)


def _callback_flags(callback: Callback) -> int:
    """Return the flags for the outcomes that cause a callback. Scripts read flags instead of decoding extras."""
    return sum(_CALLBACK_ON[event] for event in set(callback.events)) | _HAS_CALLBACK


def _identity(job: NewJob, codec: int) -> bytes:
    """Return the bytes that, with the payload, distinguish a repeated enqueue from another job under the same id.

    Times are left out, because a delay counts from the time of the call.
    """
    return f"{job.queue}\0{job.name}\0{job.lane}\0{job.unique}\0{job.priority}\0{codec}\0".encode()


def _extras(job: NewJob, run_at_ms: int, origin: ScheduleOrigin) -> bytes:
    rule = b""
    if job.repeat:
        rule = run_at_ms.to_bytes(6, "big") + _short(job.repeat.encode())
    destination = "" if job.callback is None else destination_digest(job.callback)
    extras = Extras(
        destination, job.retry, job.trace, origin.schedule, origin.planned_at_ms, job.callback, job.lease_rule
    )
    return rule if extras == _NO_EXTRAS else rule + _encode(extras)


class RecordTemplate(NamedTuple):
    """Record of a job without its id and payload."""

    head: bytes  # up to the fingerprint
    identity: blake2b  # hash state of the fingerprint before the payload; copied for each job
    tail: bytes  # from the fingerprint to the payload


def prepare_record(
    job: NewJob,
    codec: Codec,
    run_at_ms: int,
    expires_at_ms: int,
    limits: str = "",
    origin: ScheduleOrigin = NO_ORIGIN,
    note: str = "",
    entries: Sequence[str] = (),
) -> RecordTemplate:
    """Pack the parts of a record that jobs of one kind share. `entries` are those of its payload in the index.

    The engine fills in state, sequence and creation time. Only an import has a note.
    """
    flags = int(codec)
    if job.retake:
        flags |= _RETAKE
    if job.unique_while_kept:
        flags |= _UNIQUE_WHILE_KEPT
    if job.hidden:
        flags |= _HIDDEN
    if job.lease_rule:
        flags |= _WHOLE_SECONDS
    if job.tombstone_ms:
        flags |= _LEAVES_TOMBSTONE
    if job.callback is not None:
        flags |= _callback_flags(job.callback)
    if job.held:
        flags |= _HELD
    if job.joins:
        flags |= _JOINS
    has_more = job.repeat or job.lease_rule or job.callback is not None
    is_bare = job.retry is ENDLESS and not job.trace and origin is NO_ORIGIN and not has_more
    extras = b"" if is_bare else _extras(job, run_at_ms, origin)
    if job.repeat:
        flags |= _REPEATS
    if note:
        flags |= _HAS_NOTE
        extras += pack_note(note.encode())
    policy, place = _short(_policy(job, expires_at_ms)), _place(job.queue, job.name, job.lane)
    tail = b"".join((policy, place, _labels(job, entries), _long(_links(job, limits)), _long(extras)))
    head_bytes = HEADER_BYTES + FINGERPRINT_BYTES + len(tail)
    ready_high, ready = run_at_ms >> 32, run_at_ms & 0xFFFFFFFF
    head = _NEW.pack(FORMAT, 0, flags, job.priority, ready_high, ready, FIRST_REVISION, head_bytes)
    return RecordTemplate(head, blake2b(_identity(job, int(codec)), digest_size=FINGERPRINT_BYTES), tail)


def fill_record(prepared: RecordTemplate, job_id: bytes, payload: bytes) -> bytes:
    """Return id + record of a new job."""
    head, identity, tail = prepared
    fingerprint = identity.copy()
    fingerprint.update(payload)
    return b"".join((job_id, head, fingerprint.digest(), tail, payload))


def pack(
    job: NewJob,
    job_id: bytes,
    run_at_ms: int,
    expires_at_ms: int,
    limits: str = "",
    origin: ScheduleOrigin = NO_ORIGIN,
    note: str = "",
    entries: Sequence[str] = (),
) -> bytes:
    payload = job.payload
    prepared = prepare_record(job, payload.codec, run_at_ms, expires_at_ms, limits, origin, note, entries)
    return fill_record(prepared, job_id, payload.data)


def unpack(entry: bytes, *, is_whole: bool = True) -> Job:
    """Return the job of an id + record."""
    (
        _, state_code, flags, priority,
        sequence_high, sequence, created_high, created, ready_high, ready, started_high, started, ended_high, ended,
        token_high, token, deadline_high, deadline, worker, attempt, revision, progress, head_bytes,
    ) = HEADER.unpack_from(entry, 16)  # fmt: skip
    payload_at = 16 + head_bytes
    tail = entry[16 + HEADER_BYTES + FINGERPRINT_BYTES : payload_at]
    common = (_common_fields if len(tail) <= REMEMBERED_BYTES else _common_fields.__wrapped__)(
        tail, flags, priority, is_whole
    )
    is_leased = _IS_LEASED[state_code]
    if state_code == _SUSPENDED:  # the deadline marks what it waits for, see lua/lib/durable/suspension.lua
        common = replace(common, awaits_event=deadline != 0)
    created_at_ms = created_high << 32 | created
    return replace(
        common,
        id=entry[:16],
        state=_STATES[state_code],
        payload=Blob(entry[payload_at:], _CODECS[flags & _CODEC_BITS]),
        sequence=sequence_high << 32 | sequence,
        created_at_ms=created_at_ms,
        run_at_ms=ready_high << 32 | ready,
        started_at_ms=(started_high << 32 | started) or None,
        ended_at_ms=(ended_high << 32 | ended) or None,
        planned_at_ms=common.planned_at_ms or (created_at_ms if common.repeat else None),
        attempt=attempt,
        revision=revision,
        progress=progress / 1_000_000,
        worker=visible_worker(worker),
        lease_token=(token_high << 32 | token) if is_leased else 0,
        lease_deadline_at_ms=((deadline_high << 32 | deadline) or None) if is_leased else None,
    )


@lru_cache(1024)
def _common_fields(tail: bytes, flags: int, priority: int, is_whole: bool) -> Job:
    """Return a job with the fields that most jobs of a task share. Cached, because parsing them is most of the work."""
    policy, queue, name, lane, unique, tags, links, extras_bytes = _read_strings(tail)
    rule, planned, note = "", 0, ""
    if flags & _HAS_NOTE:
        note, extras_bytes = read_note(extras_bytes)
    if flags & _REPEATS:
        rule, planned, extras_bytes = _read_repeat(extras_bytes)
    own_tags, index, indexed = split_tags(tags) if tags else ((), (), ())
    extras = _decode_extras(extras_bytes) if extras_bytes else _NO_EXTRAS
    _tries, lease_ms, timeout_ms, result_ttl_ms, expires_at_ms = _read_policy(policy) if policy else _NO_POLICY
    return Job(
        id=NO_ID,
        state=State.QUEUED,
        queue=queue.decode(),
        name=name.decode(),
        payload=NULL_BLOB,
        payload_is_whole=is_whole,
        priority=priority,
        sequence=0,
        created_at_ms=0,
        run_at_ms=0,
        started_at_ms=None,
        ended_at_ms=None,
        expires_at_ms=expires_at_ms or None,
        lane=lane.decode(),
        unique=unique.decode() or None,
        retry=extras.retry,
        lease_ms=lease_ms,
        lease_rule=extras.lease_rule,
        timeout_ms=timeout_ms,
        result_ttl_ms=result_ttl_ms,
        tags=own_tags,
        index=index,
        indexed=indexed,
        trace=extras.trace,
        repeat=rule,
        schedule=extras.schedule,
        planned_at_ms=(planned if rule else extras.planned_at_ms) or None,
        callback=extras.callback,
        attempt=0,
        revision=0,
        progress=0.0,
        note=note,
        worker=None,
        lease_token=0,
        lease_deadline_at_ms=None,
        **(_read_links(links) if links else _NO_LINKS),
        **_read_flags(flags, policy),
    )


def _read_flags(flags: int, policy: bytes) -> dict[str, Any]:
    return {
        "tombstone_ms": int.from_bytes(policy[28:34], "big") if flags & _LEAVES_TOMBSTONE else 0,
        "retake": flags & _RETAKE != 0,
        "is_hidden": flags & _HIDDEN != 0,
        "is_held": flags & _HELD != 0,
        "joins": flags & _JOINS != 0,
        "has_members": flags & _HAS_MEMBERS != 0,
        "is_cancel_requested": flags & _CANCEL_REQUESTED != 0,
        "is_overdue": flags & _RETAKEABLE != 0,
        "is_history": flags & _IN_HISTORY != 0,
        "is_consequence": flags & _ENDED_BY_MEMBER != 0,
        "is_durable": flags & _DURABLE != 0,
        "needs_steps": flags & _NEEDS_STEPS != 0,
    }


def _read_strings(tail: bytes) -> tuple[bytes, ...]:
    """Return policy, queue, name, lane, unique key, tags, links and extras."""
    policy, at = _read_short(tail, 0)
    queue, at = _read_short(tail, at)
    name, at = _read_long(tail, at)
    lane, at = _read_short(tail, at)
    unique, at = _read_long(tail, at)
    tags, at = _read_long(tail, at)
    links, at = _read_long(tail, at)
    extras, at = _read_long(tail, at)
    return policy, queue, name, lane, unique, tags, links, extras


_NO_POLICY = (0, 0, 0, 0, 0)
_NO_LINKS: dict[str, Any] = {"parent": None, "on_failure": "collect", "limits": (), "flow": None}


def _read_links(links: bytes) -> dict[str, Any]:
    joined, at = _read_long(links, 17)
    return {
        "parent": links[:16] if links[:16] != NO_ID else None,
        "on_failure": ON_FAILURE[links[16]],
        "limits": tuple(joined.decode().split(LIMITS_SEPARATOR)) if joined else (),
        "flow": unpack_flow_ref(links[at:]) if at < len(links) else None,
    }


def _read_repeat(extras: bytes) -> tuple[str, int, bytes]:
    """Return the rule, its planned instant (0: the job's creation), and the other extras."""
    rule, at = _read_short(extras, 6)
    return rule.decode(), int.from_bytes(extras[:6], "big"), extras[at:]


def _read_policy(policy: bytes) -> tuple[int, int, int, int, int]:
    """Return tries and, in milliseconds, lease, timeout, time to live of the result, and expiry."""
    tries, lease, timeout, result_ttl, expires_at = (
        int.from_bytes(policy[start:end], "big") for start, end in ((0, 4), (4, 10), (10, 16), (16, 22), (22, 28))
    )
    return tries, lease, timeout, result_ttl, expires_at


def _read_short(entry: bytes, at: int) -> tuple[bytes, int]:
    end = at + 1 + entry[at]
    return entry[at + 1 : end], end


def _read_long(entry: bytes, at: int) -> tuple[bytes, int]:
    end = at + 2 + (entry[at] << 8 | entry[at + 1])
    return entry[at + 2 : end], end
