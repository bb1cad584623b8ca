"""Status of a job in LightJQ's five words, and how failures are stored and described."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from windlass.core.ids import format_id
from windlass.core.job import Attempt, Blob, Codec, Job, Timeline
from windlass.core.states import State
from windlass.core.text.codecs import as_msgpack

from .protocol import NIL, Value

# Tags of jobs from this dialect. Jobs of other dialects have neither: their results are kept, and reading them here
# does not consume them.
KEEPS_RESULT, DROPS_RESULT = "keep_result", "drop_result"
Status: TypeAlias = Literal["queued", "running", "retrying", "error", "done"]
Reason: TypeAlias = Literal["other", "timeout"]
_NOTE_START = "finished_at "
_STATUSES: dict[State, Status] = {
    State.DISPATCHED: "running",
    State.RUNNING: "running",
    State.FINISHED: "done",
    State.FAILED: "error",
    State.SUSPENDED: "running",  # its code has begun, and continues
}


class StatusShape(msgspec.Struct, frozen=True, kw_only=True):
    """Status of a job. `result` is present if the job is done; nil if it was read before or is not kept."""

    status: Status
    worker_id: Annotated[str, Meta(description="The worker of the last attempt.")] | UnsetType = UNSET
    result: Value | UnsetType = UNSET
    error: Annotated[Value, Meta(description="Value of the last failure.")] | UnsetType = UNSET
    message: Annotated[str, Meta(description="Text of the last failure.")] | UnsetType = UNSET
    reason: Annotated[Reason, Meta(description="Reason of the last failure.")] | UnsetType = UNSET
    retry_count: int
    finished_at: (
        Annotated[
            str,
            Meta(
                description="End of the last attempt in ISO 8601: as its worker gave it, or by the server's clock.",
                examples=["2026-01-31T12:00:00.000Z"],
            ),
        ]
        | UnsetType
    ) = UNSET


class StoredFailure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Failure reported by a LightJQ worker, as it is stored with the attempt."""

    message: str
    error: Raw
    finished_at: str | None = None


class FailureDetails(msgspec.Struct, frozen=True):
    reason: Reason
    message: str
    error: Raw
    finished_at: str


class _ErrorWithMessage(msgspec.Struct, frozen=True):
    message: str


def is_shown(job: Job) -> bool:
    """Whether LightJQ shows the job. Cancelled jobs and jobs kept as history do not exist for it."""
    return job.state is not State.CANCELLED and not job.is_history


def status_of(job: Job) -> Status:
    return _STATUSES.get(job.state) or ("retrying" if job.attempt else "queued")


def keeps_result(job: Job) -> bool:
    return DROPS_RESULT not in job.tags


def is_read_once(job: Job) -> bool:
    return KEEPS_RESULT in job.tags


def retry_count_of(job: Job) -> int:
    return max(0, job.attempt - 1)


def encode_failure(message: str, error: bytes, finished_at: str | None) -> Blob:
    failure = StoredFailure(message=message, error=Raw(error), finished_at=finished_at)
    return Blob(msgspec.msgpack.encode(failure), Codec.MSGPACK)


# The end of a success, as its worker gave it, is stored as the note of the job: its result must stay as it is.


def note_of_end(finished_at: str) -> str:
    return _NOTE_START + finished_at


def _end_of_success(job: Job) -> str:
    if job.note.startswith(_NOTE_START):
        return job.note.removeprefix(_NOTE_START)
    return _format_instant(job.ended_at_ms or 0)


def _format_instant(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def describe_failure(attempt: Attempt) -> FailureDetails:
    """Describe a failure reported by a LightJQ worker, another worker, or the engine."""
    reason: Reason = "timeout" if attempt.reason == "timeout" else "other"
    value = NIL if attempt.error is None else value_of(attempt.error)
    ended_at = _format_instant(attempt.ended_at_ms)
    try:
        stored = msgspec.msgpack.decode(value, type=StoredFailure)
        return FailureDetails(reason, stored.message, stored.error, stored.finished_at or ended_at)
    except msgspec.ValidationError:
        pass
    try:
        message = msgspec.msgpack.decode(value, type=_ErrorWithMessage).message
    except msgspec.ValidationError:
        message = _describe_reason(attempt.reason)
    return FailureDetails(reason, message, value, ended_at)


def _describe_reason(reason: str) -> str:
    if reason == "timeout":
        return "The job ran longer than its timeout."
    return f"The attempt failed: {reason.replace('_', ' ')}."


def value_of(blob: Blob) -> Raw:
    """Return a value as MessagePack, or its bytes if it cannot be converted."""
    return as_msgpack(blob) or Raw(msgspec.msgpack.encode(blob.data))


def last_failure(timeline: Timeline) -> Attempt | None:
    """Return the last attempt of a retrying or failed job."""
    if status_of(timeline.job) not in ("retrying", "error") or not timeline.attempts:
        return None
    return timeline.attempts[-1]


def worker_of(timeline: Timeline) -> bytes | None:
    job = timeline.job
    if job.worker is None and timeline.attempts:
        return timeline.attempts[-1].worker
    return job.worker


def shape_of(timeline: Timeline, result: Raw) -> StatusShape:
    job, worker, failure = timeline.job, worker_of(timeline), last_failure(timeline)
    details = None if failure is None else describe_failure(failure)
    return StatusShape(
        status=status_of(job),
        worker_id=UNSET if worker is None else format_id(worker),
        result=result if job.state is State.FINISHED else UNSET,
        error=UNSET if details is None else details.error,
        message=UNSET if details is None else details.message,
        reason=UNSET if details is None else details.reason,
        retry_count=retry_count_of(job),
        finished_at=_end_of_attempt(job, details),
    )


def _end_of_attempt(job: Job, details: FailureDetails | None) -> str | UnsetType:
    if job.state is State.FINISHED:
        return _end_of_success(job)
    return UNSET if details is None else details.finished_at
