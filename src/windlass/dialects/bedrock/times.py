"""Instants in Bedrock's form: UTC text.

Clients get an instant back in the form in which they gave it. A date without a time is stored as one millisecond past
midnight, an instant that cannot be given in any other way."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta

from windlass.core.job import Job
from windlass.core.states import State
from windlass.core.text.durations import INSTANT_MAX

DAY_MS = 86_400_000
DATE_ONLY_MS = 1
_EARLIEST_MS = 1_000  # the engine reads 0 as "now"
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d(?: \d\d:\d\d:\d\d)?", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_instant(text: str) -> int | None:
    """Parse `YYYY-MM-DD` or `YYYY-MM-DD HH:MM:SS`. None: it is neither."""
    if _INSTANT.fullmatch(text) is None:
        return None
    try:
        instant = datetime.fromisoformat(text).replace(tzinfo=UTC)
    except ValueError:
        return None
    at_ms = (instant - _EPOCH) // timedelta(milliseconds=1)
    if at_ms > INSTANT_MAX:
        return None
    return max(at_ms, _EARLIEST_MS) if len(text) > 10 else max(at_ms, 0) + DATE_ONLY_MS


def format_seconds(at_ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at_ms // 1000))


def format_milliseconds(at_ms: int) -> str:
    return f"{format_seconds(at_ms)}.{at_ms % 1000:03}"


def format_last_run(at_ms: int | None) -> str:
    return "" if at_ms is None else format_seconds(at_ms)


def format_scheduled_run(job: Job) -> str:
    """Format the instant at which the job is, or was, to run. The lease does not count."""
    at_ms = job.run_at_ms or job.created_at_ms  # a suspended job without an instant waits for others
    if job.state is State.WAITING and at_ms == job.started_at_ms:
        return format_seconds(at_ms)  # it waits for its children since it started
    if at_ms == job.created_at_ms:
        return format_milliseconds(at_ms)
    if at_ms % DAY_MS == DATE_ONLY_MS:
        return format_seconds(at_ms)[:10]
    return format_seconds(at_ms) if at_ms % 1000 == 0 or at_ms == job.started_at_ms else format_milliseconds(at_ms)


def format_next_run(job: Job) -> str:
    """Format the next run: of a running job with retryAfter, the end of its lease."""
    if job.retake and job.lease_deadline_at_ms is not None and not job.is_overdue:
        return format_seconds(job.lease_deadline_at_ms)
    return format_scheduled_run(job)
