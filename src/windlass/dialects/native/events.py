"""What happens to jobs is followed as server-sent events: all of it, one queue, or one job until its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from windlass.core import errors
from windlass.core.errors import Refusal
from windlass.core.event import Event, EventKind
from windlass.core.ids import format_id
from windlass.core.job import Codec, Job, Timeline
from windlass.core.validation.bounds import PAGE_MAX
from windlass.store.events.buffer import Told
from windlass.store.events.shared_follow import Arrival, SharedFollowing
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import JOB_READERS, READERS, Routes
from windlass.web.app.sse import event_stream
from windlass.web.listener.messages import Response, StreamedResponse
from windlass.wire import sse
from windlass.wire.events import EventShape, EventsQuery, JobEventsQuery
from windlass.wire.values import encode_bytes, encode_value

from .jobs import ABSENT, Gone

routes = Routes("/api/v1", tag="Following")

_HEADERS = {"Last-Event-ID": "The id of the last event that was seen; what came after it is told first."}

PAGE = PAGE_MAX
AT_ONCE = 500  # events that are taken from a follower's buffer in one turn
ENDED = "ended"  # the position behind a job's end, when it was not followed up to there
_LAST = frozenset({EventKind.FINISHED, EventKind.FAILED, EventKind.CANCELLED, EventKind.DELETED})


def _frame(context: RequestContext[Any, Any], event: Event) -> bytes:
    if event.kind is EventKind.MISSED:
        return sse.with_position(_missed_body(context, event), event.position)
    return sse.with_position(_body(event, context.query.values), event.position)


def _shared_frame(context: RequestContext[Any, Any], told: Told, position: str) -> bytes:
    """As `_frame`; the part that is the same for all followers is encoded for the first of them."""
    if told.event.kind is EventKind.MISSED:
        return sse.with_position(_missed_body(context, told.event), position)
    body = told.forms.get(context.query.values)
    if body is None:
        body = told.forms[context.query.values] = _body(told.event, context.query.values)
    return sse.with_position(body, position)


def _missed_body(context: RequestContext[Any, Any], event: Event) -> bytes:
    count = None if context.principal.queues else event.missed  # it counts the events of all queues
    shape = EventShape(kind="missed", at_ms=event.at_ms or UNSET, missed=count)
    return sse.encode_body(shape.kind, msgspec.json.encode(shape))


def _body(event: Event, values: str) -> bytes:
    value = encode_bytes(event.value) if event.value and values == "base64" else encode_value(event.value, Codec.JSON)
    state = event.kind.state
    shape = EventShape(
        kind=event.kind.label,  # type: ignore[arg-type]
        job=format_id(event.job),
        queue=event.queue,
        name=event.name,
        state=UNSET if state is None else state.label,  # type: ignore[arg-type]
        at_ms=event.at_ms,
        attempt=event.attempt,
        progress=event.progress,
        note=event.note or UNSET,
        value=value.value,
        value_base64=value.base64,
        value_codec=value.codec,
    )
    return sse.encode_body(shape.kind, msgspec.json.encode(shape))


def _snapshot(job: Job, position: str) -> bytes:
    shape = EventShape(
        kind="snapshot",
        job=format_id(job.id),
        queue=job.queue,
        name=job.name,
        state=job.state.label,  # type: ignore[arg-type]
        attempt=job.attempt,
        progress=job.progress,
        note=job.note or UNSET,
    )
    return sse.encode_frame(shape.kind, msgspec.json.encode(shape), position)


def _position(context: RequestContext[Any, Any]) -> str:
    """A browser that comes back asks with its old query, and with the header."""
    return context.request.head.headers.get("last-event-id", "") or str(context.query.position)


async def _next(context: RequestContext[Any, Any], following: SharedFollowing) -> list[Arrival]:
    """Empty: nothing happened for a while, or the server stops."""
    try:
        async with asyncio.timeout(sse.KEEP_ALIVE_S):
            return await context.state.wait_or_stop(following.next_some(AT_ONCE), [])
    except TimeoutError:
        return []


async def _pause(context: RequestContext[Any, Any]) -> None:
    """What happens until the next write goes out with it."""
    await context.state.wait_or_stop(asyncio.sleep(context.state.followers.pause_s), None)


# All of it, or of one queue


@routes.get(
    "/events", roles=READERS, query=EventsQuery, response=EventShape, response_media=sse.EVENT_STREAM, waits=True,
    headers=_HEADERS, refuses=(errors.TooLarge,),
)  # fmt: skip
async def events(context: RequestContext[None, EventsQuery]) -> StreamedResponse:
    """Follow what happens, as server-sent events.

    From now on, or behind the event whose id is given. Whoever was away for too long is told how many events they have
    missed. A token for some queues sees what happens in these."""
    if context.query.queue:
        context.check_queue(context.query.queue)
    following = context.service.follow(_position(context), queue=context.query.queue, shared=True)
    counted = await context.state.followers.follow(context.principal, following)
    return event_stream(_everything(context, following), counted)


async def _everything(
    context: RequestContext[None, EventsQuery], following: SharedFollowing
) -> AsyncGenerator[bytes, None]:
    yield sse.encode_position(following.position)
    clock = asyncio.get_running_loop().time
    written_at_s = clock()
    while not context.state.stopping.is_set():
        arrivals = await _next(context, following)
        frames = [_shared_frame(context, told, position) for told, position in arrivals if _is_for(context, told.event)]
        if not frames and (not arrivals or clock() - written_at_s >= sse.KEEP_ALIVE_S):
            frames = [sse.encode_keep_alive(following.reached)]
        for chunk in _chunks(frames):
            if not await context.state.still_admits(context.request.head, READERS):
                return
            yield chunk
        if frames:
            written_at_s = clock()
        if arrivals:
            await _pause(context)


def _chunks(frames: Sequence[bytes]) -> Iterable[bytes]:
    """The writes of one turn; an empty one when there is none, so that the token is checked in every turn."""
    return sse.join_frames(frames) if frames else (b"",)


def _is_for(context: RequestContext[Any, Any], event: Event) -> bool:
    return event.kind is EventKind.MISSED or context.principal.may_use(event.queue)


# Of one job, until its end


@routes.get(
    "/jobs/{id}/events", roles=JOB_READERS, query=JobEventsQuery, response=EventShape, other_responses={204: None},
    response_media=sse.EVENT_STREAM, waits=True, headers=_HEADERS, refuses=(*ABSENT, errors.TooLarge),
)  # fmt: skip
async def job_events(context: RequestContext[None, JobEventsQuery]) -> StreamedResponse | Response:
    """Follow one job until its end, as server-sent events.

    The first event is a snapshot of the job; the stream ends after the one that tells its end, or at once when it has
    ended. Whoever comes back with the id of the last event gets what they missed, or 204 when there is nothing more: a
    browser then stops asking."""
    job_id, position = context.job_id, _position(context)
    has_seen_end = position == ENDED
    if has_seen_end:
        position = ""
    found = await _look(context, job_id)
    if not isinstance(found, Job) or found.state.is_ended:
        return (
            Response(204) if has_seen_end and isinstance(found, Job) else await _past(context, job_id, found, position)
        )
    counted = await context.state.followers.follow(
        context.principal, context.service.follow(position, job=job_id, shared=True)
    )
    try:
        found = await _look(context, job_id)  # once more: what happens from here on is told
        if isinstance(found, Job):
            return event_stream(_until_its_end(context, counted.following, found), counted)
    except BaseException:
        await counted.__aexit__()
        raise
    await counted.__aexit__()
    return await _past(context, job_id, found, position)


async def _look(context: RequestContext[Any, Any], job_id: bytes) -> Job | Refusal:
    [found] = await context.service.job([job_id])
    if not isinstance(found, Timeline):
        return Gone() if isinstance(found, errors.AlreadyEnded) else found
    context.check_found(found.job.queue)
    return found.job


async def _until_its_end(
    context: RequestContext[None, JobEventsQuery], following: SharedFollowing, job: Job
) -> AsyncGenerator[bytes, None]:
    yield _snapshot(job, following.position)
    is_over = job.state.is_ended
    while not is_over and not context.state.stopping.is_set():
        arrivals = await _next(context, following)
        frames, is_over = await _up_to_its_end(context, job.id, arrivals)
        for chunk in _chunks(frames or [sse.encode_keep_alive(following.reached)]):
            if not await context.state.still_admits(context.request.head, JOB_READERS):
                return
            yield chunk
        if arrivals and not is_over:
            await _pause(context)


async def _up_to_its_end(
    context: RequestContext[None, JobEventsQuery], job_id: bytes, arrivals: Sequence[Arrival]
) -> tuple[list[bytes], bool]:
    """The frames of these events, and whether the job has ended with one of them."""
    frames, is_over = [], False
    for told, position in arrivals:
        frames.append(_shared_frame(context, told, position))
        is_over = told.event.kind in _LAST
        if told.event.kind is EventKind.MISSED:  # perhaps its end
            found = await _look(context, job_id)
            if isinstance(found, Job):
                frames.append(_snapshot(found, position))
            is_over = not isinstance(found, Job) or found.state.is_ended
        if is_over:
            break
    return frames, is_over


async def _past(
    context: RequestContext[None, JobEventsQuery], job_id: bytes, found: Job | Refusal, position: str
) -> StreamedResponse | Response:
    """Of a job that has ended: what its follower has not heard yet."""
    told = _since(context, job_id, position)
    first = await anext(told, None) if position else None
    if first is None and isinstance(found, Refusal):
        raise found
    if first is None and position and "last-event-id" in context.request.head.headers:
        return Response(204)
    return event_stream(_ending(context, found, first, told, position or ENDED))


async def _ending(
    context: RequestContext[Any, Any],
    found: Job | Refusal,
    first: Event | None,
    told: AsyncIterator[Event],
    position: str,
) -> AsyncGenerator[bytes, None]:
    if isinstance(found, Job):
        yield _snapshot(found, position)
    if first is not None:
        yield _frame(context, first)
        async for event in told:
            yield _frame(context, event)


async def _since(context: RequestContext[Any, Any], job_id: bytes, position: str) -> AsyncIterator[Event]:
    while True:
        page = await context.service.events(position, most=PAGE, job=job_id)
        for event in page.events:
            if _is_for(context, event):
                yield event
        if page.position == position:
            return
        position = page.position
