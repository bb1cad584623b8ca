"""What LightJQ says of a job: its five words for the engine's states, and how failures are kept and told."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from windlass.core.ids import format_id
from windlass.core.job import Attempt, Blob, Codec, Job, Timeline
from windlass.core.states import State
from windlass.core.text.codecs import as_msgpack

from .protocol import NIL, QUEUE, Value

# Tags of the jobs that were pushed here. Those of others have neither: their results are kept as they were asked to be,
# and nothing that is looked at here is used up.
KEEPS_RESULT, DROPS_RESULT = "keep_result", "drop_result"
Status: TypeAlias = Literal["queued", "running", "retrying", "error", "done"]
Reason: TypeAlias = Literal["other", "timeout"]
_STATUSES: dict[State, Status] = {
    State.DISPATCHED: "running",
    State.RUNNING: "running",
    State.FINISHED: "done",
    State.FAILED: "error",
}


class StatusShape(msgspec.Struct, frozen=True, kw_only=True):
    """A job as its pusher sees it. `result` is there when it is done: nil when it was read before, or is not kept."""

    status: Status
    worker_id: Annotated[str, Meta(description="The worker of the last attempt.")] | UnsetType = UNSET
    result: Value | UnsetType = UNSET
    error: Annotated[Value, Meta(description="Of the last failure.")] | UnsetType = UNSET
    message: Annotated[str, Meta(description="Of the last failure, for people.")] | UnsetType = UNSET
    reason: Annotated[Reason, Meta(description="Of the last failure.")] | UnsetType = UNSET
    retry_count: int


class StoredFailure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a failure that a LightJQ worker reported is kept with its attempt."""

    message: str
    error: Raw


class FailureDetails(msgspec.Struct, frozen=True):
    reason: Reason
    message: str
    error: Raw


class _ErrorWithMessage(msgspec.Struct, frozen=True):
    message: str


def is_ours(job: Job) -> bool:
    """What was cancelled, or is kept only for people to look at, is gone for LightJQ."""
    return job.queue == QUEUE and job.state is not State.CANCELLED and not job.is_history


def status_of(job: Job) -> Status:
    return _STATUSES.get(job.state) or ("retrying" if job.attempt else "queued")


def keeps_result(job: Job) -> bool:
    return DROPS_RESULT not in job.tags


def is_read_once(job: Job) -> bool:
    return KEEPS_RESULT in job.tags


def retry_count_of(job: Job) -> int:
    return max(0, job.attempt - 1)


def encode_failure(message: str, error: bytes) -> Blob:
    return Blob(msgspec.msgpack.encode(StoredFailure(message=message, error=Raw(error))), Codec.MSGPACK)


def describe_failure(attempt: Attempt) -> FailureDetails:
    """A failure, whoever reported it: a LightJQ worker, another one, or the engine itself."""
    reason: Reason = "timeout" if attempt.reason == "timeout" else "other"
    value = NIL if attempt.error is None else value_of(attempt.error)
    try:
        ours = msgspec.msgpack.decode(value, type=StoredFailure)
        return FailureDetails(reason, ours.message, ours.error)
    except msgspec.ValidationError:
        pass
    try:
        return FailureDetails(reason, msgspec.msgpack.decode(value, type=_ErrorWithMessage).message, value)
    except msgspec.ValidationError:
        return FailureDetails(reason, _describe_reason(attempt.reason), value)


def _describe_reason(reason: str) -> str:
    if reason == "timeout":
        return "The job ran longer than its timeout."
    return f"The attempt ended badly: {reason.replace('_', ' ')}."


def value_of(blob: Blob) -> Raw:
    """As MessagePack; what has no form in it, as its bytes."""
    return as_msgpack(blob) or Raw(msgspec.msgpack.encode(blob.data))


def last_failure(timeline: Timeline) -> Attempt | None:
    """Of a job that is to be tried again, or will not be."""
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
    about = None if failure is None else describe_failure(failure)
    return StatusShape(
        status=status_of(job),
        worker_id=UNSET if worker is None else format_id(worker),
        result=result if job.state is State.FINISHED else UNSET,
        error=UNSET if about is None else about.error,
        message=UNSET if about is None else about.message,
        reason=UNSET if about is None else about.reason,
        retry_count=retry_count_of(job),
    )
