"""End of an attempt, as middlewares see it. Only the worker decides on the report to the engine."""

from __future__ import annotations

import asyncio
import traceback
from typing import Any, Literal, NamedTuple, TypeAlias

from windlass.core.job import Job
from windlass.sdk.context import Context
from windlass.sdk.durable.failures import is_suspension
from windlass.sdk.failures import Stopped, decode_error
from windlass.sdk.worker.outcome import FailedInChild, gives_up

# stopped: cancelled, timed out, lost to another worker, or released by a worker that stops. suspended: it waits for a
# time, a signal or child jobs, and goes on in another run.
AttemptEnd: TypeAlias = Literal["finished", "retried", "failed", "stopped", "suspended"]


def attempt_end(ctx: Context, error: BaseException | None) -> AttemptEnd:
    """Classify the end of an attempt by the exception that it raised."""
    if error is None:
        return "finished"
    if isinstance(error, asyncio.CancelledError | Stopped):
        return "stopped"
    if is_suspension(error):
        return "suspended"
    is_final = gives_up(error, ctx.task) or not ctx.job.retry.wants_retry(ctx.job.attempt)
    return "failed" if is_final else "retried"


def seconds_waited(job: Job) -> float:
    """Return the time between the moment at which the job could start and its start."""
    return max(0, (job.started_at_ms or 0) - job.run_at_ms) / 1000


class ErrorDetails(NamedTuple):
    """Type, message and traceback of an error."""

    type: str
    message: str
    traceback: str


def describe_error(error: BaseException) -> ErrorDetails:
    """Describe an exception that was raised in this process or in a child process."""
    if isinstance(error, FailedInChild):
        stored = decode_error(error.failure.error)
        message, text = (str(stored.get(part, "")) for part in ("message", "traceback"))
        return ErrorDetails(_stored_type(error, stored), message, text)
    return ErrorDetails(error_type(error), str(error), "".join(traceback.format_exception(error)))


def error_type(error: BaseException) -> str:
    """Return the name of an exception's class, also of an exception in a child process."""
    if isinstance(error, FailedInChild):
        return _stored_type(error, decode_error(error.failure.error))
    return type(error).__qualname__


def _stored_type(error: FailedInChild, stored: dict[str, Any]) -> str:
    return str(stored.get("type", error.failure.reason))
