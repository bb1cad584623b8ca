"""Ended jobs of a source: restored with their callback, which is held as given up until it is released."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from windlass.core.callbacks.callback import GIVEN_UP_KEPT_MS
from windlass.core.export import lines
from windlass.core.export.blobs import EncodedBlob, encode_blob
from windlass.core.ids import format_id
from windlass.service import Service

from .entries import FoundJob

_HELD_BEFORE = ("id_conflict", "already_ended")  # by an interrupted run, with other instants
_FIRST_JOB_LINE = 2  # behind the header


async def hold_ended(service: Service, jobs: Sequence[FoundJob], ids: Sequence[bytes]) -> list[str]:
    """Restore ended jobs and their callbacks. Return for each the reason why it was refused, or an empty text."""
    if not jobs:
        return []
    now_ms = await service.now()
    entries = [_entry(job, job_id, now_ms) for job, job_id in zip(jobs, ids, strict=True)]
    report = await service.import_jobs(_export(service, jobs, entries, now_ms))
    refusals = [""] * len(jobs)
    for refused in report.reasons:
        if refused.code not in _HELD_BEFORE:
            refusals[(refused.line - _FIRST_JOB_LINE) % len(jobs)] = refused.reason
    return refusals


def _export(
    service: Service, jobs: Sequence[FoundJob], entries: Sequence[lines.JobEntry], now_ms: int
) -> Iterator[bytes]:
    yield lines.encode_line(
        lines.HeaderLine(
            format=lines.FORMAT,
            version=lines.VERSION,
            windlass="",
            exported_at_ms=now_ms,
            namespace=service.store.namespace,
            partitions=service.store.partitions,
        )
    )
    for job, entry in zip(jobs, entries, strict=True):
        yield lines.encode_line(_job_line(job, entry, now_ms))
    for job, entry in zip(jobs, entries, strict=True):
        yield lines.encode_line(_callback_line(job, entry, now_ms))
    counts = dict.fromkeys(lines.KINDS, 0) | {"job": len(jobs), "callback": len(jobs)}
    yield lines.encode_line(lines.EndLine(counts=counts))


def _entry(found: FoundJob, job_id: bytes, now_ms: int) -> lines.JobEntry:
    job = found.job
    return lines.JobEntry(
        id=format_id(job_id),
        queue=job.queue,
        name=job.name,
        state="finished" if found.ended and found.ended.error is None else "failed",
        payload=encode_blob(job.payload),
        fingerprint=job_id[8:].hex(),
        sequence=1,
        created_at_ms=now_ms,
        run_at_ms=now_ms,
        ended_at_ms=now_ms,
        attempt=1,
        lane=job.lane,
        unique=job.unique,
        unique_while_kept=job.unique_while_kept,
        retry=job.retry,
        result_ttl_ms=job.result_ttl_ms,
        callback=job.callback,
    )


def _attempts(found: FoundJob, now_ms: int) -> list[lines.AttemptEntry]:
    if found.ended is None or found.ended.error is None:
        return []
    error = encode_blob(found.ended.error)
    return [lines.AttemptEntry(attempt=1, ended_at_ms=now_ms, reason="failed", error=error)]


def _result(found: FoundJob) -> EncodedBlob | None:
    return encode_blob(found.ended.result) if found.ended and found.ended.result else None


def _job_line(found: FoundJob, entry: lines.JobEntry, now_ms: int) -> lines.JobLine:
    return lines.JobLine(
        job=entry,
        attempts=_attempts(found, now_ms),
        result=_result(found),
        removed_at_ms=now_ms + GIVEN_UP_KEPT_MS,
    )


def _callback_line(found: FoundJob, entry: lines.JobEntry, now_ms: int) -> lines.CallbackLine:
    attempts = _attempts(found, now_ms)
    return lines.CallbackLine(
        id=entry.id,
        number=1,
        is_given_up=True,
        at_ms=now_ms + GIVEN_UP_KEPT_MS,
        job=entry,
        result=_result(found),
        last_attempt=attempts[0] if attempts else None,
    )
