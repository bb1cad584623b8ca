"""Job in the engine and the same job in the model, as two dictionaries that must be equal."""

from __future__ import annotations

from typing import Any

from tests.service.flag_bits import BITS
from tests.service.machines import invariants
from tests.service.machines.ledger import ModelJob
from windlass.core.queue import FOREVER_MS
from windlass.core.states import LEASED


def as_stored(found: invariants.Snapshot, stored: invariants.Stored) -> dict[str, Any]:
    job = stored.job
    attempts, logs = (found.values.get(f"{kind}:{job.id.decode('latin-1')}", []) for kind in "al")
    return {
        "state": job.state,
        "content": (job.queue, job.name, job.payload, job.priority, job.lane, job.unique or "", job.tags),
        "policy": (
            job.retry,
            job.lease_ms,
            job.timeout_ms,
            job.result_ttl_ms,
            job.tombstone_ms,
            stored.flags & BITS.RETAKE > 0,
        ),
        "repeat": (job.repeat, job.planned_at_ms if job.repeat else 0),
        "order": (job.priority, job.run_at_ms, job.sequence),
        "times": (job.created_at_ms, job.started_at_ms or 0, job.ended_at_ms or 0, job.expires_at_ms or 0),
        "removed_at": found.zset("retention").get(job.id, FOREVER_MS),
        "lease": (stored.token, job.lease_deadline_at_ms or 0, job.worker or b""),
        "attempt": job.attempt,
        "revision": job.revision,
        "progress": (job.progress, job.note),
        "logs": [(int.from_bytes(one[10:14], "big"), one[21 + one[20] :].decode()) for one in logs],
        "flags": (job.is_cancel_requested, job.is_overdue, job.is_history),
        "has_result": bool(stored.flags & BITS.HAS_OUTCOME),
        "attempts": [int.from_bytes(one[:4], "big") for one in attempts],
        "bytes": stored.size,
    }


def as_expected(job: ModelJob) -> dict[str, Any]:
    new = job.content
    return {
        "state": job.state,
        "content": (new.queue, new.name, new.payload, new.priority, new.lane, new.unique, new.tags),
        "policy": (new.retry, new.lease_ms, new.timeout_ms, new.result_ttl_ms, new.tombstone_ms, new.retake),
        "repeat": (new.repeat, job.planned_at if new.repeat else 0),
        "order": job.order,
        "times": (job.created_at, job.started_at, job.ended_at, job.expires_at),
        "removed_at": job.removed_at,
        "lease": (job.token, job.deadline if job.state in LEASED else 0, job.worker),
        "attempt": job.attempt,
        "revision": job.revision,
        "progress": (job.progress, job.note),
        "logs": job.logs,
        "flags": (job.is_cancel_requested, job.is_retakeable, job.is_history),
        "has_result": job.result is not None,
        "attempts": [number for number, _, _ in job.attempts],
        "bytes": job.size,
    }
