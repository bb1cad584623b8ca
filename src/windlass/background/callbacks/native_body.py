"""Native body of a callback, as JSON (docs/callbacks.md). Every attempt sends the same bytes, so the body has nothing
that changes between attempts. Dialects may have bodies of their own."""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from windlass.core.callbacks.callback import PendingCallback
from windlass.core.job import Blob, Job
from windlass.core.text.codecs import as_json


def native_body(pending: PendingCallback) -> bytes:
    last = pending.last_attempt
    body: dict[str, Any] = {"id": pending.key, "event": pending.job.state.label, "job": _job(pending.job)}
    _put(body, "result", pending.result)
    body["is_result_too_big"] = pending.is_result_too_big
    body["reason"] = None if last is None else last.reason
    _put(body, "error", None if last is None else last.error)
    _put(body, "data", pending.callback.data)
    return msgspec.json.encode(body)


def _job(job: Job) -> dict[str, Any]:
    body: dict[str, Any] = {
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
    _put(body, "payload", job.payload if job.payload_is_whole else None)
    return body


def _put(body: dict[str, Any], name: str, blob: Blob | None) -> None:
    """Add a value. If it cannot be encoded as JSON, add it as base64 with its codec."""
    value = None if blob is None else as_json(blob)
    body[name] = value
    if blob is not None and value is None:
        body[f"{name}_base64"] = base64.b64encode(blob.data).decode()
        body[f"{name}_codec"] = blob.codec.name.lower()
