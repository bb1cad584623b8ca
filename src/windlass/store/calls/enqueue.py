"""enqueue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.errors import Refusal, refusal
from ...core.job import Durability, NewJob
from ...core.requests import Enqueued
from .. import record
from .call import ItemsCall, NotConfirmed, Relations

_CHECKS = {"none": 0, "keep": 1, "replace": 2}
_ACCEPTED = {b"queued", b"scheduled", b"waiting", b"existing", b"replaced", b"ended"}


def _terms(job: NewJob) -> bytes:
    check = _CHECKS[job.unique_check] if job.unique else 0
    if not (check or job.after):
        return b""
    terms = bytes([check]) + job.if_revision.to_bytes(4, "big")
    return Relations(terms + b"".join(job.after)) if job.after else terms


def _read(reply: Any) -> Enqueued | Refusal:
    is_durable = not isinstance(reply, NotConfirmed)
    status, job_id, revision = reply if is_durable else reply.answer
    if status in _ACCEPTED:
        return Enqueued(job_id, str(status, "ascii"), revision, is_durable)  # type: ignore[arg-type]
    detail = f"it is {revision} now" if status == b"revision_conflict" else ""
    return refusal(str(status, "ascii"), detail)


def _instants(job: NewJob, now_ms: int) -> tuple[int, int]:
    run_at_ms = now_ms + job.delay_ms if job.delay_ms else job.run_at_ms
    expires_at_ms = now_ms + job.expires_in_ms if job.expires_in_ms else job.expires_at_ms
    return run_at_ms, expires_at_ms


def enqueue(
    jobs: Sequence[tuple[bytes, NewJob]], now_ms: int, partition: int, durability: Durability | None
) -> ItemsCall[Enqueued | Refusal]:
    """`now_ms` is the engine's time when any of the jobs has a delay or a relative expiry."""
    items = [(record.pack(job, job_id, *_instants(job, now_ms)), _terms(job)) for job_id, job in jobs]
    return ItemsCall("enqueue", (), items, _read, partition=partition, durability=durability)
