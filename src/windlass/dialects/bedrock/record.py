"""Fields of a job, as Bedrock shows them."""

from __future__ import annotations

from typing import Any

from windlass.core.job import Job
from windlass.core.states import State

from . import data, times

DEFAULT_PRIORITY = 500  # priority 0 of the engine, where smaller comes first
STATES = {
    State.SCHEDULED: "QUEUED",
    State.QUEUED: "QUEUED",
    State.WAITING: "PAUSED",
    State.DISPATCHED: "RUNNING",
    State.RUNNING: "RUNNING",
    State.FINISHED: "FINISHED",
    State.FAILED: "FAILED",
    State.CANCELLED: "CANCELLED",
}
RUNNING_STATES = ("RUNNING", "RUNQUEUED")


def state_of(job: Job) -> str:
    return "RUNQUEUED" if job.retake and job.state.is_leased else STATES[job.state]


def fields_of(job: Job, number: int) -> dict[str, Any]:
    """Return the fields of a job."""
    return {
        "created": times.format_seconds(job.created_at_ms),
        "data": data.object_for_client(job, job.attempt),
        "jobID": number,
        "lastRun": times.format_last_run(job.started_at_ms),
        "name": job.name,
        "nextRun": times.format_next_run(job),
        "priority": DEFAULT_PRIORITY - job.priority,
        "repeat": job.repeat,
        "retryAfter": job.lease_rule,
        "state": state_of(job),
    }


def fields_before_take(job: Job, number: int, started_at_ms: int | None) -> dict[str, Any]:
    """Return the fields that a taken job had before the take."""
    changed = {
        "data": data.object_for_client(job, job.attempt - 1),
        "lastRun": times.format_last_run(started_at_ms),
        "nextRun": times.format_scheduled_run(job),
    }
    found = fields_of(job, number) | changed
    del found["state"]
    return found
