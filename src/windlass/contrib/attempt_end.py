"""End of an attempt, as middlewares see it. Only the worker decides on the report to the engine."""

from __future__ import annotations

import asyncio
import traceback
from typing import Literal, NamedTuple, TypeAlias

from windlass.core.job import Job
from windlass.sdk.durable.failures import DurableFailure, is_suspension
from windlass.sdk.failures import GiveUp, Stopped, decode_error
from windlass.sdk.tasks.arguments import BadArguments
from windlass.sdk.worker.outcome import FailedInChild

# stopped: cancelled, timed out, lost to another worker, or released by a worker that stops. suspended: it waits for a
# time, a signal or child jobs, and goes on in another run.
AttemptEnd: TypeAlias = Literal["finished", "retried", "failed", "stopped", "suspended"]


def attempt_end(job: Job, error: BaseException | None) -> AttemptEnd:
    """Classify the end of an attempt by the exception that it raised."""
    if error is None:
        return "finished"
    if isinstance(error, asyncio.CancelledError | Stopped):
        return "stopped"
    if is_suspension(error):
        return "suspended"
    is_final = isinstance(error, GiveUp | BadArguments | DurableFailure)
    if isinstance(error, FailedInChild):
        is_final = error.failure.is_final
    return "failed" if is_final or not job.retry.wants_retry(job.attempt) else "retried"


class ErrorDetails(NamedTuple):
    """Type, message and traceback of an error."""

    type: str
    message: str
    traceback: str


def describe_error(error: BaseException) -> ErrorDetails:
    """Describe an exception that was raised in this process or in a child process."""
    if isinstance(error, FailedInChild):
        stored = decode_error(error.failure.error)
        kind = str(stored.get("type", error.failure.reason))
        return ErrorDetails(kind, str(stored.get("message", "")), str(stored.get("traceback", "")))
    return ErrorDetails(type(error).__qualname__, str(error), "".join(traceback.format_exception(error)))
