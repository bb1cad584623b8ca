"""Jobber dialect: queue a job of a type, read its status, cancel it. Errors are plain text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from windlass.core import errors
from windlass.core.errors import WindlassError
from windlass.core.ids import format_id
from windlass.core.job import NULL_BLOB, Attempt, Blob, Codec, Job, NewJob
from windlass.core.queue import FIXED_LEASE_PREFIX
from windlass.core.retry import ENDLESS, Backoff
from windlass.core.states import State
from windlass.core.validation.bounds import DURATION_MAX, QUEUE_MAX, UINT32_MAX
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import JOB_CONTROLLERS, JOB_READERS, PRODUCERS, Routes
from windlass.web.listener.messages import Response
from windlass.wire.encoding import Encoding
from windlass.wire.problems import headers_of, status_for
from windlass.wire.values import encode_value

from .native.jobs import ABSENT, read_job

TYPE_MAX = QUEUE_MAX - len(FIXED_LEASE_PREFIX)
_ENGINE_ERRORS = (errors.EngineUnavailable, errors.EngineError, errors.EngineUnsuitable)


def format_error_as_text(error: WindlassError, _encoding: Encoding) -> Response:
    """Format an error as plain text. All engine errors have the status 500."""
    status = 500 if isinstance(error, _ENGINE_ERRORS) else status_for(error)
    return Response(status, f"{error}\n".encode(), headers_of(error), "text/plain; charset=utf-8")


routes = Routes("/jobber", tag="Jobber", error_formatter=format_error_as_text)


Seconds: TypeAlias = Annotated[
    float,
    Meta(
        gt=0,
        le=DURATION_MAX / 1000,
        description="Seconds that a worker may hold the job. Default: the lease of the queue.",
    ),
]
Attempts: TypeAlias = Annotated[
    int, Meta(ge=0, le=UINT32_MAX, description="How often the job may be taken. 0, the default: no limit.")
]


class JobberJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job of a type. Unknown fields are ignored."""

    type: Annotated[str, Meta(min_length=1, max_length=TYPE_MAX, description="The name of the job.")]
    queue: Annotated[str, Meta(min_length=1, max_length=QUEUE_MAX, description="Default: job_queue_<type>.")] | None = (
        None
    )
    payload: Annotated[Raw, Meta(description="Any JSON value. Default: null.")] | UnsetType = UNSET
    visibility_timeout: Seconds | None = None
    max_attempts: Attempts | None = None

    def new_job(self) -> NewJob:
        return NewJob(
            queue=FIXED_LEASE_PREFIX + self.type if self.queue is None else self.queue,
            name=self.type,
            payload=NULL_BLOB if self.payload is UNSET else Blob(bytes(self.payload), Codec.JSON),
            lease_ms=0 if self.visibility_timeout is None else max(1, round(self.visibility_timeout * 1000)),
            retry=Backoff(tries=self.max_attempts) if self.max_attempts else ENDLESS,
        )


class JobberAnswer(msgspec.Struct, frozen=True):
    job_id: str = msgspec.field(name="job-id")


@routes.post(
    "/queue", operation="jobber_queue", roles=PRODUCERS, body=JobberJob, body_media="application/json",
    response=JobberAnswer, response_media="application/json", status=201,
    refuses=(errors.TooLarge, errors.QueueFull, errors.EngineFull, errors.EngineError),
)  # fmt: skip
async def queue(context: RequestContext[JobberJob, None]) -> JobberAnswer:
    """Queue a job of a type.

    The job waits in the queue `job_queue_<type>`, or in `queue`, first in, first out. If its worker does not finish it
    within the visibility timeout, another worker gets it. Content-Type and Accept are ignored."""
    job = context.body.new_job()
    context.check_queue(job.queue)
    enqueued = await context.state.batcher.enqueue(job)
    return JobberAnswer(format_id(enqueued.id))


Instant: TypeAlias = datetime | None
_EPOCH = datetime.fromtimestamp(0, UTC)


def _instant(at_ms: int | None) -> Instant:
    return None if at_ms is None else _EPOCH + timedelta(milliseconds=at_ms)


class JobberError(msgspec.Struct, frozen=True, kw_only=True):
    """The last attempt that did not succeed."""

    attempt: int
    reason: Annotated[str, Meta(description="error, timeout, lease_expired, …, or a word of the worker.")]
    value: Annotated[Raw, Meta(description="The error, as its worker reported it.")] | UnsetType = UNSET


class JobberStatus(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A job of any queue, whichever dialect queued it. Instants are UTC."""

    job_id: str
    type: str
    queue: str
    state: Annotated[
        str,
        Meta(description="scheduled, queued, waiting, suspended, dispatched, running, finished, failed or cancelled."),
    ]
    attempts: Annotated[int, Meta(description="How often it was taken.")]
    max_attempts: Annotated[int, Meta(description="How often it may be taken; 0: no limit.")]
    cancel_requested: Annotated[bool, Meta(description="It runs, and its worker was asked to stop.")]
    created_at: datetime
    started_at: Annotated[Instant, Meta(description="Start of the last attempt.")]
    ended_at: Instant
    visibility_deadline: Annotated[
        Instant, Meta(description="While a worker has the job: when it returns to its queue. null: never.")
    ]
    payload: Annotated[Raw, Meta(description="Any JSON value.")] | UnsetType = UNSET
    payload_base64: Annotated[str, Meta(description="A payload that JSON cannot hold.")] | UnsetType = UNSET
    result: Annotated[Raw, Meta(description="Of a finished job, if it is kept.")] | UnsetType = UNSET
    result_base64: Annotated[str, Meta(description="A result that JSON cannot hold.")] | UnsetType = UNSET
    error: JobberError | UnsetType = UNSET


def _status(job: Job, last_failure: Attempt | None, result: Blob | None) -> JobberStatus:
    payload, encoded = encode_value(job.payload, Codec.JSON), encode_value(result, Codec.JSON)
    return JobberStatus(
        job_id=format_id(job.id),
        type=job.name,
        queue=job.queue,
        state=job.state.label,
        attempts=job.attempt,
        max_attempts=job.retry.tries,
        cancel_requested=job.is_cancel_requested,
        created_at=_EPOCH + timedelta(milliseconds=job.created_at_ms),
        started_at=_instant(job.started_at_ms),
        ended_at=_instant(job.ended_at_ms),
        visibility_deadline=_instant(job.lease_deadline_at_ms),
        payload=payload.value,
        payload_base64=payload.base64,
        result=encoded.value,
        result_base64=encoded.base64,
        error=UNSET if last_failure is None else _error(last_failure),
    )


def _error(failure: Attempt) -> JobberError:
    return JobberError(
        attempt=failure.attempt, reason=failure.reason, value=encode_value(failure.error, Codec.JSON).value
    )


@routes.get(
    "/queue/{id}", operation="jobber_status", roles=JOB_READERS, response=JobberStatus,
    response_media="application/json", refuses=(*ABSENT, errors.EngineError),
)  # fmt: skip
async def status(context: RequestContext[None, None]) -> JobberStatus:
    """Read the status of a job.

    It may be a job of any queue that the token may use, whichever dialect queued it."""
    timeline = await read_job(context.service.job([context.job_id]).one())
    job = timeline.job
    context.check_found(job.queue)
    ending = await read_job(context.service.result(job.id)) if job.state is State.FINISHED else None
    last_failure = timeline.attempts[-1] if timeline.attempts and job.state is not State.FINISHED else None
    return _status(job, last_failure, ending.result if ending is not None else None)


@routes.delete(
    "/queue/{id}", operation="jobber_cancel", status=204, roles=JOB_CONTROLLERS, response_media="application/json",
    refuses=(errors.UnknownJob, errors.AlreadyEnded, errors.EngineError),
)  # fmt: skip
async def cancel(context: RequestContext[None, None]) -> None:
    """Cancel a job.

    A job that waits is cancelled at once. The worker of a running job is asked to stop it: the job is cancelled when
    the worker has stopped it, and finished if it ends before that."""
    await context.check_jobs([context.job_id])
    await context.service.cancel([context.job_id]).one()
