"""Failures: exceptions of the SDK, their stored form, and the exceptions that a handle raises."""

from __future__ import annotations

import asyncio
import traceback
from pathlib import Path
from typing import Any

import msgspec

from windlass.core.errors import WindlassError
from windlass.core.job import Attempt, Blob, Codec, Ending
from windlass.core.validation.bounds import ERROR_MAX

from .tasks.codec import Unreadable, decode

_HERE = str(Path(__file__).parent)
MESSAGE_MAX = 2_000
TRACEBACK_MAX = ERROR_MAX - 3 * MESSAGE_MAX  # bytes; leaves room for the message and the type


class JobFailed(WindlassError):
    """The job failed. `type`, `message` and `traceback` describe the exception that its code raised."""

    code = "job_failed"

    def __init__(self, job_id: str, reason: str, error: dict[str, Any], attempts: int) -> None:
        self.job_id = job_id
        self.reason = reason  # error, timeout, crashed, out_of_memory, lease_expired, expired, …
        self.type = str(error.get("type", ""))
        self.message = str(error.get("message", ""))
        self.traceback = str(error.get("traceback", ""))
        self.attempts = attempts
        super().__init__(f"Job {job_id} failed{self._describe()}.")

    def _describe(self) -> str:
        kind = "" if self.type.lower() == self.reason else self.type
        details = ": ".join(part for part in (kind, self.message) if part).removesuffix(".")
        return f" ({self.reason}): {details}" if details else f": {self.reason}"


class JobCancelled(WindlassError):
    """The job was cancelled before it ended."""

    code = "job_cancelled"

    def __init__(self, job_id: str, reason: str = "") -> None:
        self.job_id = job_id
        self.reason = reason
        super().__init__(f"Job {job_id} was cancelled{f': {reason}' if reason not in ('', 'cancelled') else ''}.")


class ResultGone(WindlassError):
    """The job has ended, and its result is no longer stored."""

    code = "result_gone"


class EventLoopBlocked(RuntimeError):
    """A blocking call was made while an event loop runs in this thread: everything in the loop would wait for it."""


def refuse_event_loop(call: str, instead: str) -> None:
    """Refuse a call that may block for long if an event loop runs in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise EventLoopBlocked(f"{call} would block the event loop that runs here. Use `{instead}`.")


class GiveUp(Exception):
    """Raise it in a task to fail the job without further tries."""


class Retry(Exception):
    """Raised by `ctx.retry`: the attempt counts as failed and is repeated."""

    def __init__(self, delay_ms: int | None, reason: str) -> None:
        self.delay_ms = delay_ms  # None: use the job's backoff
        super().__init__(reason)


class Stopped(BaseException):
    """Raised in a thread whose job must end: cancelled, out of time, or leased by another worker by now."""


def encode_exception(error: BaseException) -> Blob:
    """Encode an exception for storage with the attempt. Its traceback starts at the task's own code."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_HERE):
        trace = trace.tb_next
    text = "".join(traceback.format_exception(type(error), error, trace or error.__traceback__))
    return encode_error(type(error).__name__, str(error), text)


def encode_error(kind: str, message: str, text: str = "") -> Blob:
    content = {"type": kind[:200], "message": _shorten(message, MESSAGE_MAX)}
    if text:
        content["traceback"] = _shorten(text, TRACEBACK_MAX)
    return Blob(msgspec.msgpack.encode(content), Codec.MSGPACK)


def _shorten(text: str, most: int) -> str:
    """Cut the middle out: the start and the end of a traceback matter. Lone surrogates cannot be stored."""
    data = text.encode(errors="backslashreplace")
    if len(data) > most:
        half = most // 2 - 8
        data = data[:half] + "\n…\n".encode() + data[-half:]
    return data.decode(errors="ignore")


def decode_error(blob: Blob | None) -> dict[str, Any]:
    """Decode a stored error, written by the SDK or by another dialect."""
    if blob is None:
        return {}
    try:
        found = decode(blob)
    except Unreadable:
        found = blob.data
    if isinstance(found, bytes):
        found = found.decode(errors="replace")
    return found if isinstance(found, dict) else {"message": found}


def make_exception(job_id: str, ending: Ending) -> JobFailed | JobCancelled:
    """Make the exception for a job that failed or was cancelled."""
    last: Attempt | None = ending.last_attempt
    reason = last.reason if last else ""
    if ending.state.label == "cancelled":
        return JobCancelled(job_id, reason)
    return JobFailed(
        job_id, reason or "failed", decode_error(last.error if last else None), last.attempt if last else 0
    )
