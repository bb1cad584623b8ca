"""Conversion of stored entries to export lines, and of lines to entries to restore. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from windlass.core.alerts.targets import is_message
from windlass.core.callbacks.callback import destination_digest
from windlass.core.export import lines
from windlass.core.export.blobs import decode_blob, encode_blob
from windlass.core.ids import format_id, parse_id
from windlass.core.job import NULL_BLOB, Attempt, Flag, FlowRef, Job, NewJob
from windlass.core.log import KeptLine, Logs
from windlass.core.queue import Configuration
from windlass.core.scheduling.schedule import Schedule
from windlass.core.states import LEASED, State
from windlass.store.commands.admin.export import RestoreEntry, StoredJob
from windlass.store.commands.logs import pack_entries, read_logs
from windlass.store.commands.queues import pack_property, read_property
from windlass.store.records.attempt import pack_attempt, pack_blob, unpack_attempt, unpack_blob
from windlass.store.records.record import NO_ORIGIN, ScheduleOrigin, pack, unpack
from windlass.store.records.snapshot import Snapshot, pack_snapshot, read_snapshot

from .durable_entries import read_durable, write_durable


class JobMatch(NamedTuple):
    """Limits and index entries of a job at its import."""

    limits: str = ""  # its limit keys
    entries: Sequence[str] = ()  # those of its payload in the index


_CONFIGURED = tuple(field.encode() for field in Configuration.__struct_fields__)
_BOOLEANS = (b"name_lanes", b"fair_share", b"lease_renewal")
_encode_schedule = msgspec.msgpack.Encoder().encode
_decode_schedule = msgspec.msgpack.Decoder(Schedule).decode
NO_MATCH = JobMatch()
MapId = Callable[[str], bytes]  # an exported id to the id in this deployment


def _pairs(flat: Sequence[bytes]) -> dict[bytes, bytes]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


# Queues


def write_queue(name: str, parts: Sequence[Any]) -> lines.QueueLine:
    fields, pauses, weights = (_pairs(part) for part in parts)
    if b"paused" in fields:
        pauses = {b"": fields[b"paused"], **pauses}
    return lines.QueueLine(
        name=name,
        configuration={field.decode(): _property(field, fields[field]) for field in _CONFIGURED if field in fields},
        pauses=sorted((_write_pause(key, content) for key, content in pauses.items()), key=lambda p: (p.lane, p.name)),
        weights={lane.decode(): int(weight) for lane, weight in sorted(weights.items())},
    )


def _property(field: bytes, stored: bytes) -> int | tuple[str, ...]:
    return stored == b"1" if field in _BOOLEANS else read_property(field.decode(), stored)


def _write_pause(key: bytes, content: bytes) -> lines.QueuePause:
    kind, rest = key[:1], key[1:].decode()
    return lines.QueuePause(
        lane=rest if kind == b"l" else "",
        name=rest if kind == b"n" else "",
        since_ms=int.from_bytes(content[:6], "big"),
        reason=content[6:].decode(),
    )


def read_queue(line: lines.QueueLine) -> RestoreEntry:
    pauses = {
        f"l{pause.lane}" if pause.lane else f"n{pause.name}" if pause.name else "": pause.since_ms.to_bytes(6, "big")
        + pause.reason.encode()
        for pause in line.pauses
    }
    paused = pauses.pop("", b"")
    fields = {field: str(pack_property(value)) for field, value in line.configuration.items()}
    weights = {lane: str(weight) for lane, weight in line.weights.items()}
    body = {"fields": fields, "paused": paused, "pauses": pauses, "weights": weights}
    return RestoreEntry("q", line.name.encode(), body)


# Schedules


def write_schedule(parts: Sequence[Any]) -> lines.ScheduleLine:
    fields, jobs = _pairs(parts[0]), parts[1]
    schedule = _decode_schedule(fields[b"definition"])

    def number(field: bytes) -> int:
        return int(fields.get(field, 0))

    return lines.ScheduleLine(
        schedule=msgspec.structs.replace(schedule, job=msgspec.structs.replace(schedule.job, payload=NULL_BLOB)),
        payload=encode_blob(schedule.job.payload),
        revision=number(b"revision"),
        created_at_ms=number(b"created_at"),
        next_at_ms=number(b"next_at"),
        paused=fields[b"paused"].decode() if b"paused" in fields else None,
        last_planned_at_ms=number(b"last_planned_at"),
        last_fired_at_ms=number(b"last_fired_at"),
        fired=number(b"fired"),
        skipped=number(b"skipped"),
        missed=number(b"missed"),
        jobs=[format_id(job_id) for job_id in jobs],
    )


def schedule_of(line: lines.ScheduleLine) -> Schedule:
    payload = decode_blob(line.payload)
    return msgspec.structs.replace(line.schedule, job=msgspec.structs.replace(line.schedule.job, payload=payload))


def read_schedule(line: lines.ScheduleLine, schedule: Schedule, map_id: MapId) -> RestoreEntry:
    jobs = [map_id(exported) for exported in line.jobs]
    fields: dict[str, bytes | str] = {
        "definition": _encode_schedule(schedule),
        "revision": str(line.revision),
        "created_at": str(line.created_at_ms),
    }
    if line.paused is not None:
        fields["paused"] = line.paused
    if jobs:
        fields["last_planned_at"], fields["last_fired_at"] = str(line.last_planned_at_ms), str(line.last_fired_at_ms)
        fields["last_job"] = jobs[0]
    for field in ("fired", "skipped", "missed"):
        if getattr(line, field):
            fields[field] = str(getattr(line, field))
    return RestoreEntry("s", schedule.name.encode(), {"fields": fields, "next_at": line.next_at_ms, "jobs": jobs})


# Jobs


def _is_without_parent(job: Job, parent_queue: str) -> bool:
    """Return whether the job is held by a parent that no longer exists. Such a job starts at its own time."""
    return job.is_held and not parent_queue


def _state_of(job: Job, parent_queue: str, now_ms: int) -> State:
    if job.state is State.SUSPENDED:
        return State.QUEUED
    may_start = job.state in LEASED or (_is_without_parent(job, parent_queue) and not job.has_members and not job.joins)
    if not may_start:
        return job.state
    return State.QUEUED if job.run_at_ms <= now_ms else State.SCHEDULED


_SAME_FIELDS = (
    "timeout_ms", "result_ttl_ms", "tombstone_ms", "tags", "index", "trace", "repeat", "joins", "on_failure",
    "callback",
)  # fmt: skip


def write_entry(entry: bytes, parent_queue: str, now_ms: int) -> lines.JobEntry:
    job, snapshot = unpack(entry), read_snapshot(entry)
    flags = int.from_bytes(entry[18:22], "big")
    return lines.JobEntry(
        id=format_id(job.id),
        queue=job.queue,
        name=job.name,
        state=_state_of(job, parent_queue, now_ms).label,  # type: ignore[arg-type]
        payload=encode_blob(job.payload),
        fingerprint=snapshot.fingerprint.hex(),
        sequence=job.sequence,
        created_at_ms=job.created_at_ms,
        run_at_ms=job.created_at_ms if job.state is State.SUSPENDED else job.run_at_ms,
        revision=job.revision,
        started_at_ms=snapshot.started_at_ms,
        ended_at_ms=snapshot.ended_at_ms,
        expires_at_ms=job.expires_at_ms or 0,
        attempt=max(0, job.attempt - 1) if job.state in LEASED else job.attempt,
        progress=snapshot.progress,
        note=job.note,
        planned_at_ms=(job.planned_at_ms or 0) if job.repeat else 0,
        schedule=job.schedule,
        schedule_planned_at_ms=(job.planned_at_ms or 0) if job.schedule and not job.repeat else 0,
        is_hidden=bool(flags & Flag.HIDDEN),
        is_history=job.is_history,
        parent=format_id(job.parent) if job.parent and parent_queue else "",
        parent_queue=parent_queue,
        is_held=job.is_held and not _is_without_parent(job, parent_queue),
        has_members=job.has_members,
        is_consequence=job.is_consequence,
        is_odd_round=bool(flags & Flag.ODD_ROUND),
        priority=job.priority,
        lane=job.lane,
        unique=job.unique or "",
        unique_while_kept=bool(flags & Flag.UNIQUE_WHILE_KEPT),
        retry=job.retry,
        lease_ms=job.lease_ms,
        lease_rule=job.lease_rule,
        retake=bool(flags & Flag.RETAKE),
        **{field: getattr(job, field) for field in _SAME_FIELDS},
        flow=lines.FlowRefEntry(format_id(job.flow.id), job.flow.name, job.flow.step) if job.flow else None,
    )


def _write_attempt(stored: bytes) -> lines.AttemptEntry:
    attempt = unpack_attempt(stored)
    return lines.AttemptEntry(
        attempt=attempt.attempt,
        ended_at_ms=attempt.ended_at_ms,
        reason=attempt.reason,
        started_at_ms=attempt.started_at_ms or 0,
        worker=attempt.worker.hex() if attempt.worker else "",
        error=encode_blob(attempt.error) if attempt.error else None,
    )


def write_job(job_id: bytes, stored: StoredJob, now_ms: int) -> lines.JobLine:
    entry = job_id + stored.record
    result, logs = unpack_blob(stored.result), read_logs(stored.logs)
    is_requested = int.from_bytes(entry[18:22], "big") & Flag.CANCEL_REQUESTED
    written = write_entry(entry, stored.parent_queue, now_ms)
    if written.ended_at_ms and not stored.awaited:  # all jobs that it waited for are gone
        written = msgspec.structs.replace(written, has_members=False, is_consequence=False)
    return lines.JobLine(
        job=written,
        attempts=[_write_attempt(attempt) for attempt in stored.attempts],
        logs=[lines.LogEntry(*msgspec.structs.astuple(line)) for line in logs.lines],
        logs_dropped=logs.dropped,
        result=encode_blob(result) if result else None,
        removed_at_ms=stored.removed_at_ms,
        is_unique_shared=stored.is_unique_shared,
        is_cancel_requested=bool(is_requested),
        after=[lines.AwaitedEntry(format_id(member[:16]), member[16:].decode()) for member in sorted(stored.awaited)],
        durable=write_durable(stored.durable, stored.stream),
    )


def new_job_of(entry: lines.JobEntry, job_id: bytes, parent: bytes, flow: FlowRef | None) -> NewJob:
    """Return the content of an exported job as a new job, which can be validated like an enqueued job."""
    return NewJob(
        queue=entry.queue,
        name=entry.name,
        payload=decode_blob(entry.payload),
        id=job_id,
        priority=entry.priority,
        expires_at_ms=entry.expires_at_ms,
        lane=entry.lane,
        unique=entry.unique,
        unique_while_kept=entry.unique_while_kept,
        retry=entry.retry,
        lease_ms=entry.lease_ms,
        lease_rule=entry.lease_rule,
        retake=entry.retake,
        hidden=entry.is_hidden,
        timeout_ms=entry.timeout_ms,
        result_ttl_ms=entry.result_ttl_ms,
        tombstone_ms=entry.tombstone_ms,
        tags=entry.tags,
        index=entry.index,
        trace=entry.trace,
        repeat=entry.repeat,
        parent=parent,
        held=entry.is_held,
        joins=entry.joins,
        on_failure=entry.on_failure,
        callback=entry.callback,
        flow=flow,
    )


def _flags_of(entry: lines.JobEntry) -> int:
    return int(
        (Flag.HIDDEN if entry.is_hidden else 0)
        | (Flag.IN_HISTORY if entry.is_history else 0)
        | (Flag.HAS_MEMBERS if entry.has_members else 0)
        | (Flag.ENDED_BY_MEMBER if entry.is_consequence else 0)
        | (Flag.ODD_ROUND if entry.is_odd_round else 0)
    )


def _durable_flags(entry: lines.DurableEntry | None) -> int:
    if entry is None:
        return 0
    return int(Flag.DURABLE | (Flag.NEEDS_STEPS if entry.steps else 0))


def record_of(entry: lines.JobEntry, job: NewJob, match: JobMatch, flags: int = 0) -> bytes:
    origin = ScheduleOrigin(entry.schedule, entry.schedule_planned_at_ms) if entry.schedule else NO_ORIGIN
    # A repeat rule is packed with its planned time; pack_snapshot sets the time at which the job runs.
    times = entry.planned_at_ms, entry.expires_at_ms
    packed = pack(job, job.id, *times, match.limits, origin, entry.note, match.entries)
    snapshot = Snapshot(
        fingerprint=bytes.fromhex(entry.fingerprint),
        state=int(State[entry.state.upper()]),
        flags=_flags_of(entry) | flags,
        sequence=entry.sequence,
        created_at_ms=entry.created_at_ms,
        run_at_ms=entry.run_at_ms,
        started_at_ms=entry.started_at_ms,
        ended_at_ms=entry.ended_at_ms,
        attempt=entry.attempt,
        revision=entry.revision,
        progress=entry.progress,
    )
    return pack_snapshot(packed, snapshot)


def attempt_of(entry: lines.AttemptEntry) -> Attempt:
    return Attempt(
        attempt=entry.attempt,
        started_at_ms=entry.started_at_ms or None,
        ended_at_ms=entry.ended_at_ms,
        worker=parse_id(entry.worker) if entry.worker else None,
        reason=entry.reason,
        error=decode_blob(entry.error) if entry.error else None,
    )


def _logs_of(line: lines.JobLine) -> Logs:
    kept = [KeptLine(entry.attempt, entry.at_ms, entry.level, entry.text) for entry in line.logs]
    return Logs(kept, line.logs_dropped)


def read_job(line: lines.JobLine, job: NewJob, match: JobMatch, after: Sequence[bytes], map_id: MapId) -> RestoreEntry:
    body: dict[str, Any] = {
        "record": record_of(line.job, job, match, _durable_flags(line.durable)),
        "attempts": [pack_attempt(attempt_of(entry)) for entry in line.attempts],
        "logs": pack_entries(_logs_of(line)),
        "result": pack_blob(decode_blob(line.result) if line.result else None),
        "removed_at": line.removed_at_ms,
        "is_shared": line.is_unique_shared,
        "after": b"".join(after),
    }
    if line.durable is not None:
        body["durable"] = read_durable(line.durable, map_id)
    return RestoreEntry("j", job.id, body)


# Callbacks


def write_callback(callback_id: bytes, parts: Sequence[Any]) -> lines.CallbackLine:
    index, score, flat = parts
    fields = _pairs(flat)
    result, attempt = unpack_blob(fields.get(b"result")), fields.get(b"attempt")
    return lines.CallbackLine(
        id=format_id(callback_id[:16]),
        number=int.from_bytes(callback_id[16:], "big"),
        is_given_up=index == b"given_up",
        at_ms=int(float(score)),
        job=write_entry(fields[b"job"], "", 0),
        is_payload_whole=fields[b"is_whole"] == b"1",
        result=encode_blob(result) if result else None,
        is_result_too_big=fields[b"is_too_big"] == b"1",
        last_attempt=_write_attempt(attempt) if attempt else None,
        tries=int(fields[b"tries"]),
        error=fields.get(b"error", b"").decode(errors="replace"),
    )


def read_callback(line: lines.CallbackLine, job: NewJob) -> RestoreEntry:
    fields: dict[str, bytes | str] = {
        "job": job.id + record_of(line.job, job, NO_MATCH),
        "tries": str(line.tries),
        "is_whole": str(int(line.is_payload_whole)),
        "result": pack_blob(decode_blob(line.result) if line.result else None),
        "is_too_big": str(int(line.is_result_too_big)),
        "attempt": pack_attempt(attempt_of(line.last_attempt)) if line.last_attempt else b"",
        "error": line.error,
        "to": "" if job.callback is None else destination_digest(job.callback),
    }
    if is_message(job.callback):
        fields["is_alert"] = "1"
    body = {"list": "given_up" if line.is_given_up else "owed", "at": line.at_ms, "fields": fields}
    return RestoreEntry("b", job.id + line.number.to_bytes(6, "big"), body)


# Tombstones


def write_tombstone(job_id: bytes, parts: Sequence[Any]) -> lines.TombstoneLine:
    queue, until = parts
    return lines.TombstoneLine(id=format_id(job_id), queue=queue.decode(), until_ms=int(float(until)))


def read_tombstone(line: lines.TombstoneLine, job_id: bytes) -> RestoreEntry:
    return RestoreEntry("t", job_id, {"queue": line.queue, "until_at": line.until_ms})
