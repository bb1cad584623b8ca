"""Routes for pushers: enqueue, read, poll and cancel jobs."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Annotated, Any
from weakref import WeakSet

import msgspec
from msgspec import Meta, Raw

from windlass.background.push_dispatcher import divide_by_name
from windlass.background.push_message import RETRY, TIMEOUT_S
from windlass.core import errors
from windlass.core.errors import AlreadyEnded, BadInput, Refusal, UnknownJob, WrongState
from windlass.core.ids import format_id
from windlass.core.job import Blob, Codec, NewJob, Timeline
from windlass.core.states import State
from windlass.core.validation.bounds import DURATION_MAX, INT32_MAX, INT32_MIN, NAME_MAX, UINT32_MAX
from windlass.web.app.app_state import AppState
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import PRODUCERS, READERS
from windlass.wire.encoding import MSGPACK
from windlass.wire.problems import HttpRefusal

from .protocol import NIL, QUEUE, JobId, QueueName, Value, check_value, make_routes, parse_job_id
from .status import DROPS_RESULT, KEEPS_RESULT, StatusShape, is_read_once, is_shown, keeps_result, shape_of, value_of

routes = make_routes("Pushers")

MAX_RETRY = RETRY.tries - 1
POLL_S, POLL_MAX_S = 5, 600
_MAP_MARKERS = (*range(0x80, 0x90), 0xDE, 0xDF)  # the first byte of a map in MessagePack

JobName = Annotated[str, Meta(min_length=1, max_length=NAME_MAX, examples=["send"])]
Int32 = Annotated[int, Meta(ge=INT32_MIN, le=INT32_MAX, description="Smaller numbers run first.")]
Retries = Annotated[int, Meta(ge=0, lt=UINT32_MAX, description="0: none.")]
Seconds = Annotated[float, Meta(gt=0, le=DURATION_MAX / 1000, description="Seconds that an attempt may take.")]


class PushedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job. Unknown fields are ignored."""

    name: JobName
    argument: Annotated[Value, Meta(description="A map.")]
    priority: Int32 = 0
    max_retry: Retries = MAX_RETRY
    keep_result: Annotated[bool, Meta(description="Keep the result until it is read.")] = False
    timeout: Seconds = TIMEOUT_S
    queue: Annotated[QueueName, Meta(description="Workers of this queue get the job.")] = QUEUE

    def new_job(self, keep_ms: int, tombstone_ms: int) -> NewJob:
        return NewJob(
            queue=self.queue,
            name=self.name,
            payload=Blob(_argument(self.argument), Codec.MSGPACK),
            priority=self.priority,
            retry=msgspec.structs.replace(RETRY, tries=1 + self.max_retry),
            timeout_ms=max(1, round(self.timeout * 1000)),
            result_ttl_ms=keep_ms,
            tags=(KEEPS_RESULT if self.keep_result else DROPS_RESULT,),
            tombstone_ms=tombstone_ms if self.keep_result else 0,
        )


def _argument(given: Raw) -> bytes:
    encoded = check_value("argument", given)
    if encoded[0] not in _MAP_MARKERS:
        raise BadInput("argument must be a map; put a single value under a key.")
    return encoded


class Pushed(msgspec.Struct, frozen=True):
    job_id: JobId


class PollingQuery(msgspec.Struct, frozen=True):
    timeout: Annotated[int, Meta(ge=0, le=POLL_MAX_S, description="Seconds to wait for the end of the job.")] = POLL_S


class NotEnded(HttpRefusal):
    code = "not_ended"
    status = 408
    sentence = "The job has not ended within this time; try again."


class NotCancelable(HttpRefusal):
    code = "not_cancelable"
    status = 409
    sentence = "The job has started or ended; only a waiting job can be cancelled."


_configured: WeakSet[AppState] = WeakSet()


async def ensure_name_lanes(state: AppState) -> None:
    """Divide LightJQ's own queue by name from the start. Other queues are divided when a push worker first refuses a
    name (push_dispatcher.py)."""
    if state in _configured:
        return
    await divide_by_name(state.service, QUEUE)
    _configured.add(state)


@routes.post(
    "/job", operation="push_job", roles=PRODUCERS, body=PushedJob, body_media=MSGPACK, response=Pushed,
    response_media=MSGPACK, status=201, is_listed=False,
    refuses=(errors.TooLarge, errors.QueueFull, errors.EngineFull, errors.EngineError),
)  # fmt: skip
async def push_job(context: RequestContext[PushedJob, None]) -> Pushed:
    """Enqueue a job."""
    settings = context.state.settings
    job = context.body.new_job(settings.lightjq_keep_ms, settings.lightjq_tombstone_ms)
    context.check_queue(job.queue)
    if job.queue == QUEUE:
        await ensure_name_lanes(context.state)
    return Pushed(format_id((await context.state.batcher.enqueue(job)).id))


class Discarded(UnknownJob):
    """The job had keep_result and has ended; its result was discarded, and its record is no longer shown."""


async def find_job(context: RequestContext[Any, Any], job_id: bytes) -> Timeline:
    """Return a job of any queue that the token may use, whatever dialect enqueued it."""
    try:
        timeline = await context.service.job([job_id]).one()
    except AlreadyEnded as error:
        raise UnknownJob from error
    job = timeline.job
    context.check_found(job.queue)
    if job.is_history and job.tombstone_ms and job.state is not State.CANCELLED:
        raise Discarded
    if not is_shown(job):
        raise UnknownJob
    return timeline


async def _nil_if_discarded(
    context: RequestContext[Any, Any], job_id: bytes, answer: Awaitable[StatusShape]
) -> StatusShape | Raw:
    """Return the answer, or nil for a job with keep_result that has ended and is only remembered by its id."""
    try:
        return await answer
    except Discarded:
        return NIL
    except (UnknownJob, AlreadyEnded) as error:
        (queue,) = await context.service.tombstone([job_id])
        if isinstance(queue, Refusal):
            raise UnknownJob from error
        context.check_found(queue)
        return NIL


async def _describe_job(context: RequestContext[Any, Any], timeline: Timeline) -> StatusShape:
    """Return the status of a job. A result with keep_result is consumed if the client is connected and may read it."""
    job, result = timeline.job, NIL
    if job.state is State.FINISHED and keeps_result(job) and not context.request.client.is_gone:
        is_read = is_read_once(job) and context.request.head.method == "GET" and context.principal.may(PRODUCERS)
        ending = await context.service.result(job.id, consume=is_read)
        result = NIL if ending is None or ending.result is None else value_of(ending.result)
    return shape_of(timeline, result)


@routes.get(
    "/job/{id}", operation="job_status", roles=PRODUCERS | READERS, response=StatusShape | None, body_media=MSGPACK,
    response_media=MSGPACK, is_listed=False, refuses=(UnknownJob, errors.EngineError),
)  # fmt: skip
async def job_status(context: RequestContext[None, None]) -> StatusShape | Raw:
    """Read the status of a job.

    The result of a job with `keep_result` is returned once; later answers have a nil `result`. When the job itself is
    no longer kept, the answer is nil. A token that may only read gets the result without consuming it."""
    job_id = parse_job_id(context.path["id"])
    return await _nil_if_discarded(context, job_id, _read_status(context, job_id))


async def _read_status(context: RequestContext[Any, Any], job_id: bytes) -> StatusShape:
    return await _describe_job(context, await find_job(context, job_id))


@routes.get(
    "/job/{id}/polling", operation="poll_job", roles=PRODUCERS | READERS, query=PollingQuery,
    response=StatusShape | None, body_media=MSGPACK, response_media=MSGPACK, is_listed=False, waits=True,
    refuses=(UnknownJob, NotEnded, errors.EngineError),
)  # fmt: skip
async def poll_job(context: RequestContext[None, PollingQuery]) -> StatusShape | Raw:
    """Wait for the end of a job.

    Answers at once if the job is done, or has failed without a retry left; otherwise as soon as it ends. 408 if it does
    not end in time. nil as in the status of a job."""
    job_id = parse_job_id(context.path["id"])
    return await _nil_if_discarded(context, job_id, _await_end(context, job_id))


async def _await_end(context: RequestContext[None, PollingQuery], job_id: bytes) -> StatusShape:
    await find_job(context, job_id)
    waiting = context.service.result(job_id, wait_ms=context.query.timeout * 1000)
    if await context.state.wait_or_stop(waiting, None) is None:
        raise NotEnded
    timeline = await find_job(context, job_id)
    if not timeline.job.state.is_ended:  # it was requeued in between
        raise NotEnded
    return await _describe_job(context, timeline)


@routes.delete(
    "/job/{id}", operation="cancel_job", status=204, roles=PRODUCERS, body_media=MSGPACK, response_media=MSGPACK,
    is_listed=False, refuses=(UnknownJob, NotCancelable, errors.EngineError),
)  # fmt: skip
async def cancel_job(context: RequestContext[None, None]) -> None:
    """Cancel a job that has not started, or waits for its next attempt."""
    job_id = parse_job_id(context.path["id"])
    await find_job(context, job_id)
    try:
        await context.service.cancel([job_id], spares_running=True).one()
    except (WrongState, AlreadyEnded) as error:
        await find_job(context, job_id)  # a job cancelled in between is unknown
        raise NotCancelable from error
