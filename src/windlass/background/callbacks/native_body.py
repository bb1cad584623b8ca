"""What a receiver is told of a job's end, where its dialect has no form of its own: JSON, the same bytes in each
attempt, so it holds nothing that changes between them (docs/callbacks.md)."""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from windlass.core.callbacks.callback import PendingCallback
from windlass.core.job import Blob, Job
from windlass.core.text.codecs import as_json


def native_body(debt: PendingCallback) -> bytes:
    last = debt.last_attempt
    told: dict[str, Any] = {"id": debt.key, "event": debt.job.state.label, "job": _job(debt.job)}
    _put(told, "result", debt.result)
    told["is_result_too_big"] = debt.is_result_too_big
    told["reason"] = None if last is None else last.reason
    _put(told, "error", None if last is None else last.error)
    _put(told, "data", debt.callback.data)
    return msgspec.json.encode(told)


def _job(job: Job) -> dict[str, Any]:
    told: dict[str, Any] = {
        "id": job.key,
        "queue": job.queue,
        "name": job.name,
        "lane": job.lane,
        "unique": job.unique,
        "tags": job.tags,
        "trace": job.trace,
        "priority": job.priority,
        "attempt": job.attempt,
        "created_at_ms": job.created_at_ms,
        "started_at_ms": job.started_at_ms,
        "ended_at_ms": job.ended_at_ms,
        "payload_is_whole": job.payload_is_whole,
    }
    _put(told, "payload", job.payload if job.payload_is_whole else None)
    return told


def _put(told: dict[str, Any], name: str, blob: Blob | None) -> None:
    """What has no form in JSON, as base64 with its codec."""
    value = None if blob is None else as_json(blob)
    told[name] = value
    if blob is not None and value is None:
        told[f"{name}_base64"] = base64.b64encode(blob.data).decode()
        told[f"{name}_codec"] = blob.codec.name.lower()
