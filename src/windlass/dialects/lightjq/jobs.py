"""Routes for pushers: enqueue, read, poll and cancel jobs."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Annotated, Any, TypeVar
from weakref import WeakSet

import msgspec
from msgspec import Meta, Raw

from windlass.core import errors
from windlass.core.errors import AlreadyEnded, BadInput, UnknownJob, WrongState
from windlass.core.ids import format_id
from windlass.core.job import Blob, Codec, NewJob, Timeline
from windlass.core.retry import Backoff
from windlass.core.states import State
from windlass.core.validation.bounds import DURATION_MAX, INT32_MAX, INT32_MIN, NAME_MAX, UINT32_MAX
from windlass.web.app.app_state import AppState
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import PRODUCERS, READERS
from windlass.wire.encoding import MSGPACK
from windlass.wire.problems import HttpRefusal

from .protocol import NIL, QUEUE, JobId, Value, check_value, make_routes, parse_job_id
from .status import DROPS_RESULT, KEEPS_RESULT, StatusShape, is_ours, is_read_once, keeps_result, shape_of, value_of

routes = make_routes("Pushers")

T = TypeVar("T")
MAX_RETRY, TIMEOUT_S = 10, 30
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

    def new_job(self, keep_ms: int) -> NewJob:
        return NewJob(
            queue=QUEUE,
            name=self.name,
            payload=Blob(_argument(self.argument), Codec.MSGPACK),
            priority=self.priority,
            retry=Backoff(tries=1 + self.max_retry, base_ms=1_000, factor=2.0, cap_ms=300_000, jitter=0.1),
            timeout_ms=max(1, round(self.timeout * 1000)),
            result_ttl_ms=keep_ms,
            tags=(KEEPS_RESULT if self.keep_result else DROPS_RESULT,),
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
    """Give the queue a lane per name, so that a name that a worker does not know does not block other names."""
    if state in _configured:
        return
    if not (await state.service.configuration(QUEUE)).name_lanes:
        await state.service.configure(QUEUE, {"name_lanes": True})
    _configured.add(state)


@routes.post(
    "/job", operation="push_job", roles=PRODUCERS, body=PushedJob, body_media=MSGPACK, response=Pushed,
    response_media=MSGPACK, status=201, is_listed=False,
    refuses=(errors.TooLarge, errors.QueueFull, errors.EngineFull, errors.EngineError),
)  # fmt: skip
async def push_job(context: RequestContext[PushedJob, None]) -> Pushed:
    """Enqueue a job."""
    context.check_queue(QUEUE)
    job = context.body.new_job(context.state.settings.lightjq_keep_ms)
    await ensure_name_lanes(context.state)
    return Pushed(format_id((await context.state.batcher.enqueue(job)).id))


async def find_job(context: RequestContext[Any, Any], job_id: bytes) -> Timeline:
    try:
        timeline = await context.service.job([job_id]).one()
    except AlreadyEnded as error:
        raise UnknownJob from error
    if not is_ours(timeline.job):
        raise UnknownJob
    return timeline


async def _describe_job(context: RequestContext[Any, Any], timeline: Timeline) -> StatusShape:
    """Return the status of a job. A result with keep_result is consumed if the client is connected and may read it."""
    job, result = timeline.job, NIL
    if job.state is State.FINISHED and keeps_result(job) and not context.request.client.is_gone:
        is_read = is_read_once(job) and context.request.head.method == "GET" and context.principal.may(PRODUCERS)
        ending = await context.service.result(job.id, consume=is_read)
        result = NIL if ending is None or ending.result is None else value_of(ending.result)
    return shape_of(timeline, result)


@routes.get(
    "/job/{id}", operation="job_status", roles=PRODUCERS | READERS, response=StatusShape, body_media=MSGPACK,
    response_media=MSGPACK, is_listed=False, refuses=(UnknownJob, errors.EngineError),
)  # fmt: skip
async def job_status(context: RequestContext[None, None]) -> StatusShape:
    """Read the status of a job.

    The result of a job with `keep_result` is returned once; later answers have nil. A token that may only read gets the
    result without consuming it."""
    context.check_queue(QUEUE)
    return await _expired_as_unknown(_describe_job(context, await find_job(context, parse_job_id(context.path["id"]))))


@routes.get(
    "/job/{id}/polling", operation="poll_job", roles=PRODUCERS | READERS, query=PollingQuery, response=StatusShape,
    body_media=MSGPACK, response_media=MSGPACK, is_listed=False, waits=True,
    refuses=(UnknownJob, NotEnded, errors.EngineError),
)  # fmt: skip
async def poll_job(context: RequestContext[None, PollingQuery]) -> StatusShape:
    """Wait for the end of a job.

    Answers at once if the job is done, or has failed without a retry left; otherwise as soon as it ends. 408 if it does
    not end in time."""
    context.check_queue(QUEUE)
    job_id = parse_job_id(context.path["id"])
    await find_job(context, job_id)
    waiting = context.service.result(job_id, wait_ms=context.query.timeout * 1000)
    if await _expired_as_unknown(context.state.wait_or_stop(waiting, None)) is None:
        raise NotEnded
    timeline = await find_job(context, job_id)
    if not timeline.job.state.is_ended:  # it was requeued in between
        raise NotEnded
    return await _expired_as_unknown(_describe_job(context, timeline))


async def _expired_as_unknown(operation: Awaitable[T]) -> T:
    try:
        return await operation
    except AlreadyEnded as error:
        raise UnknownJob from error


@routes.delete(
    "/job/{id}", operation="cancel_job", status=204, roles=PRODUCERS, body_media=MSGPACK, response_media=MSGPACK,
    is_listed=False, refuses=(UnknownJob, NotCancelable, errors.EngineError),
)  # fmt: skip
async def cancel_job(context: RequestContext[None, None]) -> None:
    """Cancel a job that has not started, or waits for its next attempt."""
    context.check_queue(QUEUE)
    job_id = parse_job_id(context.path["id"])
    await find_job(context, job_id)
    try:
        await context.service.cancel([job_id], spares_running=True).one()
    except (WrongState, AlreadyEnded) as error:
        await find_job(context, job_id)  # a job cancelled in between is unknown
        raise NotCancelable from error
