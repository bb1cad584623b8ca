"""Outcome of an attempt in the form in which it is reported.

It is the same for all pools. A child process sends it to its parent unchanged.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.core.errors import BadInput
from windlass.core.job import Blob, Job
from windlass.core.operations import Fail, Finish
from windlass.core.validation.bounds import REASON_MAX, RESULT_MAX
from windlass.sdk.failures import GiveUp, Retry, encode_error, encode_exception
from windlass.sdk.tasks.arguments import BadArguments
from windlass.sdk.tasks.codec import encode

if TYPE_CHECKING:
    from windlass.sdk.tasks.task import Task


class AttemptFailure(msgspec.Struct, frozen=True, kw_only=True):
    """Reason and details of a failed attempt."""

    reason: str
    error: Blob | None = None
    is_final: bool = False  # no retry, even if tries are left
    delay_ms: int | None = None  # of the retry; None: use the job's backoff


class AttemptSuccess(msgspec.Struct, frozen=True, tag=True):
    result: Blob | None = None


class AttemptFailed(msgspec.Struct, frozen=True, tag=True):
    failure: AttemptFailure


AttemptResult = AttemptSuccess | AttemptFailed


class FailedInChild(Exception):
    """Carries a failure through the middlewares in the parent process."""

    def __init__(self, failure: AttemptFailure) -> None:
        self.failure = failure
        super().__init__(failure.reason)


TIMED_OUT = AttemptFailure(
    reason="timeout", error=encode_error("Timeout", "The attempt took longer than the task's timeout.")
)


def make_success(job: Job, value: Any) -> AttemptResult:
    """Encode the result. A value that cannot be stored is a failure, because nothing could read it."""
    if not job.result_ttl_ms and not job.parent and value is None:
        return _NOTHING
    try:
        blob = encode(value)
    except BadInput as error:
        return AttemptFailed(AttemptFailure(reason="bad_result", error=encode_exception(error), is_final=True))
    if len(blob.data) > RESULT_MAX:
        message = (
            f"The result has {len(blob.data)} bytes, and the limit is {RESULT_MAX}. Store it elsewhere and return a "
            "reference."
        )
        return AttemptFailed(
            AttemptFailure(reason="bad_result", error=encode_error("TooLarge", message), is_final=True)
        )
    return AttemptSuccess(blob)


_NOTHING = AttemptSuccess(None)


def make_failure(error: BaseException, task: Task[..., Any]) -> AttemptResult:
    """Convert an exception to a failure. The task decides whether a retry may help."""
    if isinstance(error, FailedInChild):
        return AttemptFailed(error.failure)
    if isinstance(error, Retry):
        reason = str(error) or "retry"
        return AttemptFailed(
            AttemptFailure(reason=_reason(reason), error=encode_error("Retry", reason), delay_ms=error.delay_ms)
        )
    if isinstance(error, BadArguments):
        return AttemptFailed(AttemptFailure(reason="bad_arguments", error=encode_exception(error), is_final=True))
    reason = "out_of_memory" if isinstance(error, MemoryError) else "error"
    return AttemptFailed(AttemptFailure(reason=reason, error=encode_exception(error), is_final=_gives_up(error, task)))


def _gives_up(error: BaseException, task: Task[..., Any]) -> bool:
    if isinstance(error, (GiveUp, *task.give_up_on)):
        return True
    return bool(task.retry_on) and not isinstance(error, task.retry_on)


def _reason(text: str) -> str:
    """Cut a reason to its maximum length. The error has the whole text."""
    plain = "".join(char for char in text if char.isprintable())
    return plain.encode()[:REASON_MAX].decode(errors="ignore") or "retry"


def make_report(job: Job, ended: AttemptResult) -> Finish | Fail:
    """Make the report for the engine. The retry policy stored with the job decides whether it is retried."""
    if isinstance(ended, AttemptSuccess):
        return Finish(job.id, job.lease_token, ended.result)
    failure = ended.failure
    if failure.is_final or not job.retry.wants_retry(job.attempt):
        return Fail(id=job.id, token=job.lease_token, then="final", reason=failure.reason, error=failure.error)
    delay_ms = failure.delay_ms
    if delay_ms is None:
        delay_ms = job.retry.delay_ms(job.attempt, random.random())  # noqa: S311
    return Fail(
        id=job.id, token=job.lease_token, then="retry", delay_ms=delay_ms, reason=failure.reason, error=failure.error
    )


def make_cancelled(job: Job, error: BaseException | None, reason: str = "cancelled") -> Fail:
    kept = encode_exception(error) if error is not None else None
    return Fail(id=job.id, token=job.lease_token, then="cancelled", reason=reason, error=kept)
