"""Outcome of an attempt in the form in which it is reported.

It is the same for all pools. A child process sends it to its parent unchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from windlass.core.durable import Suspend, Wait
from windlass.core.errors import BadInput, StepsFull
from windlass.core.job import Blob, Job
from windlass.core.operations import Fail, Finish
from windlass.core.validation.bounds import REASON_MAX, RESULT_MAX
from windlass.pauses import random_fraction
from windlass.sdk.durable.failures import DurableFailure, Suspended, leaves
from windlass.sdk.durable.values import UnreadableStep
from windlass.sdk.failures import GiveUp, Retry, encode_error, encode_exception
from windlass.sdk.tasks.arguments import BadArguments
from windlass.sdk.tasks.codec import encode

if TYPE_CHECKING:
    from windlass.sdk.context import Context
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


class AttemptSuspended(msgspec.Struct, frozen=True, tag=True):
    """End of a run whose code waits."""

    waits: tuple[Wait, ...]


AttemptResult = AttemptSuccess | AttemptFailed | AttemptSuspended


class FailedInChild(Exception):
    """Carries a failure through the middlewares in the parent process."""

    def __init__(self, failure: AttemptFailure) -> None:
        self.failure = failure
        super().__init__(failure.reason)


TIMED_OUT = AttemptFailure(
    reason="timeout", error=encode_error("Timeout", "The attempt took longer than the task's timeout.")
)

OVERDUE = AttemptFailure(
    reason="deadline",
    error=encode_error("Deadline", "The job has not ended within the deadline of its task."),
    is_final=True,
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
_SWALLOWED = AttemptFailed(
    AttemptFailure(
        reason="suspension_swallowed",
        error=encode_error(
            "SuspensionSwallowed",
            "The code has caught windlass.Suspended and returned. Let it pass: catch Exception instead of "
            "BaseException, and do not pass return_exceptions=True to asyncio.gather.",
        ),
        is_final=True,
    )
)


def refuse_swallowed(ended: AttemptResult, context: Context | None) -> AttemptResult:
    """Turn the success of code that had to be suspended into a failure: its result does not mean anything."""
    if context is None or context.durable is None or not context.durable.is_suspended:
        return ended
    return _SWALLOWED if type(ended) is AttemptSuccess else ended


def make_failure(error: BaseException, task: Task[..., Any]) -> AttemptResult:
    """Convert an exception to a failure, or to a suspension. The task decides whether a retry may help."""
    if isinstance(error, Suspended | BaseExceptionGroup):
        parts = leaves(error)
        if waits := next((part.waits for part in parts if isinstance(part, Suspended)), ()):
            others = [part for part in parts if not isinstance(part, Suspended)]
            return make_failure(_join(error, others), task) if others else AttemptSuspended(waits)
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
    return AttemptFailed(AttemptFailure(reason=reason, error=encode_exception(error), is_final=gives_up(error, task)))


def _join(error: BaseException, others: list[BaseException]) -> BaseException:
    """Return the exceptions of a group that are no suspensions: they win."""
    return others[0] if len(others) == 1 else BaseExceptionGroup(str(error), others)


# An outcome that is stored, or a step that could not be stored: a further attempt would end in the same way.
_FINAL = (GiveUp, DurableFailure, StepsFull, UnreadableStep)


def gives_up(error: BaseException, task: Task[..., Any]) -> bool:
    """Report whether no retry follows this exception, whatever tries are left."""
    if isinstance(error, FailedInChild):
        return error.failure.is_final
    if isinstance(error, Retry | BadArguments):
        return isinstance(error, BadArguments)
    if isinstance(error, BaseExceptionGroup) and all(isinstance(part, DurableFailure) for part in leaves(error)):
        return True
    if isinstance(error, (*_FINAL, *task.give_up_on)):
        return True
    return bool(task.retry_on) and not isinstance(error, task.retry_on)


def _reason(text: str) -> str:
    """Cut a reason to its maximum length. The error has the whole text."""
    plain = "".join(char for char in text if char.isprintable())
    return plain.encode()[:REASON_MAX].decode(errors="ignore") or "retry"


def make_report(job: Job, ended: AttemptResult) -> Finish | Fail | Suspend:
    """Make the report for the engine. The retry policy stored with the job decides whether it is retried."""
    if isinstance(ended, AttemptSuccess):
        return Finish(job.id, job.lease_token, ended.result)
    if isinstance(ended, AttemptSuspended):
        return Suspend(id=job.id, token=job.lease_token, waits=ended.waits)
    failure = ended.failure
    if failure.is_final or not job.retry.wants_retry(job.attempt):
        return Fail(id=job.id, token=job.lease_token, then="final", reason=failure.reason, error=failure.error)
    delay_ms = failure.delay_ms
    if delay_ms is None:
        delay_ms = job.retry.delay_ms(job.attempt, random_fraction())
    return Fail(
        id=job.id, token=job.lease_token, then="retry", delay_ms=delay_ms, reason=failure.reason, error=failure.error
    )


def make_cancelled(job: Job, error: BaseException | None, reason: str = "cancelled") -> Fail:
    kept = encode_exception(error) if error is not None else None
    return Fail(id=job.id, token=job.lease_token, then="cancelled", reason=reason, error=kept)
