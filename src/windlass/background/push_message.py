"""What a worker is told when a job is pushed to it, and how its answer is read."""

from __future__ import annotations

import msgspec

from windlass.core.ids import format_id
from windlass.core.job import Codec, Job
from windlass.core.operations import PushOutcome
from windlass.core.text.codecs import as_msgpack

TIMEOUT_S = 30  # of jobs that have none of their own: nobody else ends an attempt on a worker without a heartbeat
MARGIN_MS = 10_000  # of the lease beyond the timeout: the timeout decides
PATH = "/worker-job"
MEDIA_TYPE = "application/msgpack"


def address_of(url: str) -> str:
    return url.rstrip("/") + PATH


def headers_of(worker: bytes) -> dict[str, str]:
    """`worker-id`: whom the master means. A worker that has registered anew is not the one that it was."""
    return {"content-type": MEDIA_TYPE, "accept": MEDIA_TYPE, "worker-id": format_id(worker)}


def message_of(job: Job) -> bytes | None:
    """None: its argument has no form in MessagePack."""
    argument = msgspec.Raw(msgspec.msgpack.encode(job.payload.data)) if job.payload.codec is Codec.RAW else None
    argument = argument or as_msgpack(job.payload)
    if argument is None:
        return None
    message = {"id": job.key, "job_id": job.key, "name": job.name, "argument": argument, "timeout": timeout_s_of(job)}
    return msgspec.msgpack.encode(message)


def timeout_s_of(job: Job) -> int | float:
    seconds = job.timeout_ms / 1000 if job.timeout_ms else TIMEOUT_S
    return int(seconds) if seconds == int(seconds) else seconds


def lease_ms_of(job: Job) -> int:
    return (job.timeout_ms or TIMEOUT_S * 1000) + MARGIN_MS


def outcome_of(status: int) -> PushOutcome | None:
    """None: the worker has looked at the job and does not want it. What is no answer of the worker API is trouble of
    the worker."""
    if status == 404:
        return "unknown"
    if status == 410:
        return "gone"
    if 200 <= status < 300:
        return "accepted"
    return None if status in (400, 413, 415, 422) else "unreachable"
