"""Jobber dialect: a single route, which enqueues a job in the queue of its type. Errors are plain text."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from windlass.core import errors
from windlass.core.errors import WindlassError
from windlass.core.ids import format_id
from windlass.core.job import NULL_BLOB, Blob, Codec, NewJob
from windlass.core.retry import ENDLESS, Backoff
from windlass.core.validation.bounds import DURATION_MAX, QUEUE_MAX, UINT32_MAX
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import PRODUCERS, Routes
from windlass.web.listener.messages import Response
from windlass.wire.encoding import Encoding
from windlass.wire.problems import headers_of, status_for

QUEUE_PREFIX = "job_queue_"
TYPE_MAX = QUEUE_MAX - len(QUEUE_PREFIX)
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

    type: Annotated[str, Meta(min_length=1, max_length=TYPE_MAX, description="The queue is job_queue_<type>.")]
    payload: Annotated[Raw, Meta(description="Any JSON value. Default: null.")] | UnsetType = UNSET
    visibility_timeout: Seconds | None = None
    max_attempts: Attempts | None = None

    def new_job(self) -> NewJob:
        return NewJob(
            queue=QUEUE_PREFIX + self.type,
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

    The job waits in the queue `job_queue_<type>`, first in, first out. If its worker does not finish it within the
    visibility timeout, another worker gets it. Content-Type and Accept are ignored."""
    job = context.body.new_job()
    context.check_queue(job.queue)
    enqueued = await context.state.batcher.enqueue(job)
    return JobberAnswer(format_id(enqueued.id))
