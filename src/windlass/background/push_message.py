"""Message of a push, and the interpretation of the worker's answer."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from windlass.core.ids import format_id
from windlass.core.job import Codec, Job
from windlass.core.operations import PushOutcome
from windlass.core.retry import ENDLESS, Backoff
from windlass.core.text.codecs import as_msgpack
from windlass.core.validation.push import BUSY_PAUSE_MAX
from windlass.outbound.retry_after import retry_after_ms

TIMEOUT_S = 30  # of jobs without a timeout: nothing else ends an attempt on a worker without heartbeats
MARGIN_MS = 10_000  # of the lease beyond the timeout, so that the timeout ends the attempt
# Of jobs without a retry policy, for attempts of push workers: otherwise a job that always fails is pushed forever.
RETRY = Backoff(tries=11, base_ms=1_000, factor=2.0, cap_ms=300_000, jitter=0.1)
PATH = "/worker-job"
MEDIA_TYPE = "application/msgpack"


def address_of(url: str) -> str:
    return url.rstrip("/") + PATH


def headers_of(worker: bytes) -> dict[str, str]:
    """Return the headers of a push. A worker that registered again has another `worker-id`, and refuses the former
    one."""
    return {"content-type": MEDIA_TYPE, "accept": MEDIA_TYPE, "worker-id": format_id(worker)}


def message_of(job: Job, fixed_lease_ms: int = 0) -> bytes | None:
    """Return the message, or None if the argument cannot be encoded as MessagePack.

    `fixed_lease_ms`: time after which the worker loses the job; 0: its lease is that of the push (`lease_ms_of`)."""
    argument = msgspec.Raw(msgspec.msgpack.encode(job.payload.data)) if job.payload.codec is Codec.RAW else None
    argument = argument or as_msgpack(job.payload)
    if argument is None:
        return None
    timeout_s = _timeout_s(job, fixed_lease_ms)
    message = {"id": job.key, "job_id": job.key, "name": job.name, "argument": argument, "timeout": timeout_s}
    return msgspec.msgpack.encode(message)


def _timeout_s(job: Job, fixed_lease_ms: int) -> int | float:
    seconds = min((limit / 1000 for limit in (job.timeout_ms, fixed_lease_ms) if limit), default=TIMEOUT_S)
    return int(seconds) if seconds == int(seconds) else seconds


def lease_ms_of(job: Job) -> int:
    """Return the lease of a job that its worker has accepted, unless its queue has fixed leases."""
    return (job.timeout_ms or TIMEOUT_S * 1000) + MARGIN_MS


def retry_of(job: Job) -> Backoff:
    return RETRY if job.retry == ENDLESS else job.retry


def outcome_of(status: int) -> PushOutcome | None:
    """Return the outcome of a push, or None if the worker refuses this job. A status that the worker API does not
    define counts as an error of the worker."""
    if status == 404:
        return "unknown"
    if status == 410:
        return "gone"
    if status == 429:
        return "busy"
    if 200 <= status < 300:
        return "accepted"
    return None if status in (400, 413, 415, 422) else "unreachable"


def pause_ms_of(headers: Mapping[str, str], now_s: float) -> int:
    """Return the pause that a busy worker asks for with Retry-After; 0: none."""
    return retry_after_ms(headers, now_s, most_ms=BUSY_PAUSE_MAX) or 0
