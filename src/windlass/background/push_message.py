"""Message of a push, and the interpretation of the worker's answer."""

from __future__ import annotations

import msgspec

from windlass.core.ids import format_id
from windlass.core.job import Codec, Job
from windlass.core.operations import PushOutcome
from windlass.core.text.codecs import as_msgpack

TIMEOUT_S = 30  # of jobs without a timeout: nothing else ends an attempt on a worker without heartbeats
MARGIN_MS = 10_000  # of the lease beyond the timeout, so that the timeout ends the attempt
PATH = "/worker-job"
MEDIA_TYPE = "application/msgpack"


def address_of(url: str) -> str:
    return url.rstrip("/") + PATH


def headers_of(worker: bytes) -> dict[str, str]:
    """Return the headers of a push. A worker that registered again has another `worker-id`, and refuses the former
    one."""
    return {"content-type": MEDIA_TYPE, "accept": MEDIA_TYPE, "worker-id": format_id(worker)}


def message_of(job: Job) -> bytes | None:
    """Return the message, or None if the argument cannot be encoded as MessagePack."""
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
    """Return the outcome of a push, or None if the worker refuses this job. A status that the worker API does not
    define counts as an error of the worker."""
    if status == 404:
        return "unknown"
    if status == 410:
        return "gone"
    if 200 <= status < 300:
        return "accepted"
    return None if status in (400, 413, 415, 422) else "unreachable"
