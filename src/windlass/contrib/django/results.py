"""Conversion of jobs to Django's TaskResult."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.utils import timezone

from windlass.core.ids import format_id, time_of_id
from windlass.core.job import Attempt, Job, NewJob, Timeline
from windlass.core.job_template import PreparedJob
from windlass.core.states import State
from windlass.sdk.failures import decode_error
from windlass.sdk.tasks.arguments import META
from windlass.sdk.tasks.codec import decode
from windlass.sdk.tasks.task import Call

from .interface import Status, TaskError, TaskResult

_STATUS = {
    State.SCHEDULED: Status.READY,
    State.QUEUED: Status.READY,
    State.WAITING: Status.READY,
    State.DISPATCHED: Status.RUNNING,
    State.RUNNING: Status.RUNNING,
    State.FINISHED: Status.SUCCESSFUL,
    State.FAILED: Status.FAILED,
    State.CANCELLED: Status.FAILED,
    State.SUSPENDED: Status.RUNNING,  # its code has begun, and continues
}
UNKNOWN_WORKER = "unknown"
RUN_AFTER = "run_after"  # in the payload's metadata


def new_job(call: Call[Any], run_after: datetime | None) -> NewJob | PreparedJob:
    """Make the job of a call.

    The payload keeps `run_after` as given, because the engine rounds it to milliseconds and forgets it with the first
    retry.
    """
    return call.prepare(None if run_after is None else {RUN_AFTER: run_after.isoformat()})


def new_result(task: Any, job_id: bytes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Make the result of a job that was just enqueued. It equals a read until a worker takes the job."""
    return TaskResult(
        task=task,
        id=format_id(job_id),
        status=Status.READY,
        enqueued_at=instant(time_of_id(job_id)),
        started_at=None,
        finished_at=None,
        last_attempted_at=None,
        args=args,
        kwargs=kwargs,
        backend=task.backend,
        errors=[],
        worker_ids=[],
    )


def make_result(task: Any, alias: str, timeline: Timeline) -> Any:
    """Make the result of a stored job. `succeed` sets its return value."""
    job, attempts = timeline.job, timeline.attempts
    call = decode(job.payload)
    starts = [at_ms for at_ms in (*(attempt.started_at_ms for attempt in attempts), job.started_at_ms) if at_ms]
    return TaskResult(
        task=_restore_task(task, alias, job, call.get(META, {})),
        id=job.key,
        status=_STATUS[job.state],
        enqueued_at=_enqueued_at(job),
        started_at=instant(min(starts, default=None)),
        finished_at=instant(job.ended_at_ms) if job.state.is_ended else None,
        last_attempted_at=instant(max(starts, default=None)),
        args=call["args"],
        kwargs=call["kwargs"],
        backend=alias,
        errors=[_make_task_error(attempt) for attempt in attempts],
        worker_ids=_workers(job, attempts),
    )


def succeed(result: Any, value: Any) -> None:
    """Set the return value. Results are frozen for readers, and Django's own backends fill them in this way, too."""
    object.__setattr__(result, "status", Status.SUCCESSFUL)
    object.__setattr__(result, "_return_value", value)


def fail(result: Any, error: BaseException, text: str) -> None:
    object.__setattr__(result, "status", Status.FAILED)
    result.errors.append(TaskError(exception_class_path=class_path(error), traceback=text))


def end(result: Any) -> None:
    object.__setattr__(result, "finished_at", timezone.now())


def class_path(error: BaseException) -> str:
    return f"{type(error).__module__}.{type(error).__qualname__}"


def instant(at_ms: int | None) -> datetime | None:
    """Convert an instant as Django's settings ask: aware, or naive in local time."""
    return None if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC if settings.USE_TZ else None)


def run_at(run_after: datetime) -> datetime:
    return timezone.make_aware(run_after) if timezone.is_naive(run_after) else run_after


def _enqueued_at(job: Job) -> datetime | None:
    """Return the time in the job's id, or the engine's time if the id has none.

    The producer knows the id, so that `enqueue` returns an equal result without a second request.
    """
    at_ms = time_of_id(job.id)
    return instant(job.created_at_ms if at_ms is None else at_ms)


def _restore_task(task: Any, alias: str, job: Job, meta: Mapping[str, Any]) -> Any:
    return task.using(
        priority=-job.priority, queue_name=job.queue, backend=alias, run_after=_run_after(job, meta.get(RUN_AFTER))
    )


def _run_after(job: Job, given: str | None) -> datetime | None:
    """Return the time that the producer gave. Jobs of other producers only have the time of their next attempt."""
    if given is not None:
        return datetime.fromisoformat(given)
    is_deferred = job.attempt == 0 and job.run_at_ms > job.created_at_ms
    return instant(job.run_at_ms) if is_deferred else None


def _make_task_error(attempt: Attempt) -> Any:
    """Convert a failed attempt. Without an exception (a crash, a lost worker, a cancel) it shows the reason."""
    stored = decode_error(attempt.error)
    by_itself = "windlass.JobCancelled" if attempt.reason == "cancelled" else "windlass.JobFailed"
    text = stored.get("traceback") or ": ".join(part for part in (attempt.reason, stored.get("message")) if part)
    return TaskError(exception_class_path=stored.get("class") or by_itself, traceback=text)


def _workers(job: Job, attempts: Sequence[Attempt]) -> list[str]:
    """Return a worker id for each attempt, in order. The engine stores only the last ones."""
    known = [
        attempt.worker.hex() if attempt.worker else UNKNOWN_WORKER for attempt in attempts if attempt.started_at_ms
    ]
    if job.state in (State.DISPATCHED, State.RUNNING, State.FINISHED):
        known.append(job.worker.hex() if job.worker else UNKNOWN_WORKER)
    return [UNKNOWN_WORKER] * (job.attempt - len(known)) + known
