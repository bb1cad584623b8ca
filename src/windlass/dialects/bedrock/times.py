"""Instants as Bedrock writes them: UTC text. What a client gave comes back as it was given: a date alone is kept as one
millisecond past its midnight, which nobody can give otherwise."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta

from windlass.core.job import Job
from windlass.core.states import State
from windlass.core.text.durations import INSTANT_MAX

DAY_MS = 86_400_000
DATE_ALONE_MS = 1
_EARLIEST_MS = 1_000  # the engine reads 0 as "now"
_GIVEN = re.compile(r"\d{4}-\d\d-\d\d(?: \d\d:\d\d:\d\d)?", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read(text: str) -> int | None:
    """`YYYY-MM-DD` or `YYYY-MM-DD HH:MM:SS`; None for anything else."""
    if _GIVEN.fullmatch(text) is None:
        return None
    try:
        instant = datetime.fromisoformat(text).replace(tzinfo=UTC)
    except ValueError:
        return None
    at_ms = (instant - _EPOCH) // timedelta(milliseconds=1)
    if at_ms > INSTANT_MAX:
        return None
    return max(at_ms, _EARLIEST_MS) if len(text) > 10 else max(at_ms, 0) + DATE_ALONE_MS


def seconds(at_ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at_ms // 1000))


def milliseconds(at_ms: int) -> str:
    return f"{seconds(at_ms)}.{at_ms % 1000:03}"


def last_run(at_ms: int | None) -> str:
    return "" if at_ms is None else seconds(at_ms)


def scheduled(job: Job) -> str:
    """When it is, or was, to run, apart from any lease."""
    at_ms = job.run_at_ms
    if job.state is State.WAITING and at_ms == job.started_at_ms:
        return seconds(at_ms)  # it has handed over, and stands where it started
    if at_ms == job.created_at_ms:
        return milliseconds(at_ms)
    if at_ms % DAY_MS == DATE_ALONE_MS:
        return seconds(at_ms)[:10]
    return seconds(at_ms) if at_ms % 1000 == 0 or at_ms == job.started_at_ms else milliseconds(at_ms)


def next_run(job: Job) -> str:
    """Of a job that may be taken over while it runs: when it may be."""
    if job.retake and job.lease_deadline_at_ms is not None and not job.is_overdue:
        return seconds(job.lease_deadline_at_ms)
    return scheduled(job)
