"""Enqueue command, and the items of new jobs that other commands share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windlass.core.errors import Refusal, refusal
from windlass.core.job import Blob, Cap, Codec, Durability, NewJob
from windlass.core.job_template import JobTemplate, PreparedJob
from windlass.core.limits.limit import LimitTable
from windlass.core.operations import Enqueued
from windlass.store.records import record

from .caps import pack_cap
from .command import Argument, BatchCommand, DependencyIds, NotConfirmed
from .limits import join_keys

_ATOMIC = b"\xff"  # enqueued with the next job, or not at all
_CAPPED = b"\xfe"  # a cap follows
_NONE, _KEEP, _REPLACE, _DEBOUNCE, _THROTTLE, _REFUSE = b"\0", b"\1", b"\2", b"\3", b"\4", b"\5"
_ACCEPTED: dict[bytes, Any] = {
    status.encode(): status for status in ("queued", "scheduled", "waiting", "existing", "replaced", "ended")
}
PREPARED_MAX = 256  # per template


def _terms(job: NewJob, limits: LimitTable, matched: Sequence[str], payload: Blob) -> bytes:
    """Return the job's cap, the rule for its unique key, and the jobs it waits for; empty if it has none."""
    unique = _unique_terms(job)
    cap = b"" if job.cap is None else _cap_terms(job.cap, limits.find_own_cap(job.cap.limit, matched, payload))
    if job.after:
        return DependencyIds(cap + (unique or _NONE) + b"".join(job.after))
    return cap + unique


def _cap_terms(cap: Cap, target: tuple[str, str] | None) -> bytes:
    if target is None:
        return _CAPPED + (2).to_bytes(2, "big") + bytes(2)
    limit_key = target[0].encode()
    content = len(limit_key).to_bytes(2, "big") + limit_key + pack_cap(cap, target[1])
    return _CAPPED + len(content).to_bytes(2, "big") + content


def _unique_terms(job: NewJob) -> bytes:
    if not job.unique or job.unique_check == "none":
        return b""
    if job.debounce_ms:
        return _DEBOUNCE + job.debounce_ms.to_bytes(6, "big") + job.debounce_max_ms.to_bytes(6, "big")
    if job.throttle_ms:
        return _THROTTLE + job.throttle_ms.to_bytes(6, "big")
    if job.unique_check == "replace":
        return _REPLACE + job.if_revision.to_bytes(4, "big")
    return _KEEP if job.unique_check == "keep" else _REFUSE


def read_enqueued(reply: Any) -> Enqueued | Refusal:
    """Parse the reply about a job. The id alone means that it was queued unchanged."""
    is_durable = type(reply) is not NotConfirmed
    if not is_durable:
        reply = reply.answer
    if type(reply) is bytes:
        return Enqueued(reply, "queued", record.FIRST_REVISION, is_durable)
    status, job_id, revision = reply
    accepted = _ACCEPTED.get(status)
    if accepted is not None:
        return Enqueued(job_id, accepted, revision, is_durable)
    detail = f"it is {revision} now" if status == b"revision_conflict" else ""
    return refusal(str(status, "ascii"), detail)


def _instants(job: NewJob, now_ms: int) -> tuple[int, int]:
    run_at_ms = now_ms + job.delay_ms if job.delay_ms else job.run_at_ms
    expires_at_ms = now_ms + job.expires_in_ms if job.expires_in_ms else job.expires_at_ms
    return run_at_ms, expires_at_ms


def enqueue_item(
    job_id: bytes, job: PreparedJob, now_ms: int, limits: LimitTable, origin: record.ScheduleOrigin = record.NO_ORIGIN
) -> tuple[bytes, bytes]:
    """Return id + record and terms of a new job, as every script that adds jobs reads them."""
    template, payload = job.template, job.payload
    common = template.job
    matched = limits.match(common.queue, common.name, common.lane, payload) if limits.limits else ()
    entries = limits.index_entries(common.queue, common.index, payload) if limits.indexes or common.index else ()
    prepared = _record_template(template, payload.codec, now_ms, matched, origin, entries)
    packed = record.fill_record(prepared, job_id, payload.data)
    return packed, b"" if template.is_simple else _terms(common, limits, matched, payload)


def _record_template(
    template: JobTemplate,
    codec: Codec,
    now_ms: int,
    matched: Sequence[str],
    origin: record.ScheduleOrigin,
    entries: Sequence[str] = (),
) -> record.RecordTemplate:
    if template.has_relative_times or origin is not record.NO_ORIGIN or entries:  # entries differ from job to job
        times = _instants(template.job, now_ms)
        return record.prepare_record(template.job, codec, *times, join_keys(matched), origin, entries=entries)
    key = codec, matched
    found: record.RecordTemplate | None = template.packed.get(key)
    if found is None:
        if len(template.packed) >= PREPARED_MAX:  # limit keys differ with the payloads
            template.packed.clear()
        found = template.packed[key] = record.prepare_record(
            template.job, codec, *_instants(template.job, 0), join_keys(matched)
        )
    return found


def enqueue(
    jobs: Sequence[tuple[bytes, PreparedJob]],
    now_ms: int,
    limits: LimitTable,
    partition: int,
    durability: Durability | None,
    *,
    is_whole: bool = False,
    reserves_numbers: bool = False,
) -> BatchCommand[Enqueued | Refusal]:
    """Build the command. `now_ms` is the engine's time if any job has a delay or a relative expiry.

    With `reserves_numbers` the engine makes the ids from numbers.
    """
    items, size = _items(jobs, now_ms, limits)
    if is_whole:
        items, size = _mark_all_atomic(items), -1
    return BatchCommand(
        "enqueue",
        (limits.version,),
        items,
        read_enqueued,
        partition=partition,
        durability=durability,
        is_whole=is_whole,
        reserves_numbers=reserves_numbers,
        size=size,
    )


def _items(
    jobs: Sequence[tuple[bytes, PreparedJob]], now_ms: int, limits: LimitTable
) -> tuple[list[tuple[Argument, ...]], int]:
    """Return the items and their bytes, or -1. Adjacent jobs of one template share one look-up."""
    items: list[tuple[Argument, ...]] = []
    size = 0
    last: JobTemplate | None = None
    codec: Codec | None = None
    prepared: record.RecordTemplate
    for job_id, job in jobs:
        template, payload = job.template, job.payload
        if template is not last or payload.codec is not codec:
            if limits.limits or limits.indexes or template.job.index or not template.is_simple:
                return [enqueue_item(job_id, job, now_ms, limits) for job_id, job in jobs], -1
            last, codec = template, payload.codec
            prepared = _record_template(template, codec, now_ms, (), record.NO_ORIGIN)
        entry = record.fill_record(prepared, job_id, payload.data)
        size += len(entry)
        items.append((entry, b""))
    return items, size


def _mark_all_atomic(items: list[tuple[Argument, ...]]) -> list[tuple[Argument, ...]]:
    marked = [(entry, _mark_atomic(terms)) for entry, terms in items[:-1]]
    return [*marked, items[-1]]


def _mark_atomic(terms: Argument) -> bytes:
    assert isinstance(terms, bytes)  # noqa: S101
    return type(terms)(_ATOMIC + terms)
