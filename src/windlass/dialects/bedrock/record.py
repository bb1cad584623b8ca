"""Fields of a job, as Bedrock shows them."""

from __future__ import annotations

from typing import Any

from windlass.core.job import Job
from windlass.core.states import State

from . import data, times
from .verbs import QUEUE

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
    State.SUSPENDED: "QUEUED",  # it sleeps until its nextRun; a job that waits for a signal or for children is PAUSED
}
RUNNING_STATES = ("RUNNING", "RUNQUEUED")


def state_of(job: Job) -> str:
    if job.awaits_event:
        return "PAUSED"
    return "RUNQUEUED" if job.retake and job.state.is_leased else STATES[job.state]


def fields_of(job: Job, number: int) -> dict[str, Any]:
    """Return the fields of a job."""
    fields = _fields(job, number, job.attempt, job.started_at_ms, times.format_next_run(job))
    fields["state"] = state_of(job)
    return fields


def fields_before_take(job: Job, number: int, started_at_ms: int | None) -> dict[str, Any]:
    """Return the fields that a taken job had before the take."""
    return _fields(job, number, job.attempt - 1, started_at_ms, times.format_scheduled_run(job))


def _fields(job: Job, number: int, deliveries: int, started_at_ms: int | None, next_run: str) -> dict[str, Any]:
    fields = {
        "created": times.format_seconds(job.created_at_ms),
        "data": data.value_for_client(job, deliveries),
        "jobID": number,
        "lastRun": times.format_last_run(started_at_ms),
        "name": job.name,
        "nextRun": next_run,
        "priority": DEFAULT_PRIORITY - job.priority,
        "repeat": job.repeat,
        "retryAfter": job.lease_rule if job.retake else "",
    }
    if job.queue != QUEUE:
        fields["queue"] = job.queue
    return fields
