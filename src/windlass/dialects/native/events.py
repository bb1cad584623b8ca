"""Routes of event streams: all events, those of one queue, or those of one job until its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from typing import Any

import msgspec

from windlass.core import errors
from windlass.core.errors import Refusal
from windlass.core.event import Event, EventKind
from windlass.core.job import Job, Timeline
from windlass.core.validation.bounds import PAGE_MAX
from windlass.store.events.buffer import SharedEvent
from windlass.store.events.shared_follow import Arrival, SharedFollower
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import JOB_READERS, READERS, Routes
from windlass.web.app.sse import event_stream
from windlass.web.listener.messages import Response, StreamedResponse
from windlass.wire import sse
from windlass.wire.events import EventShape, EventsQuery, JobEventsQuery, event_shape, missed_shape, snapshot_shape

from .jobs import ABSENT, Gone

routes = Routes("/api/v1", tag="Following")

_HEADERS = {"Last-Event-ID": "The id of the last event that the client has seen. The stream resumes after it."}

BATCH = 500  # events read from the buffer of a follower at once
ENDED = "ended"  # the position after the end of a job whose events were not followed
_FINAL_KINDS = frozenset({EventKind.FINISHED, EventKind.FAILED, EventKind.CANCELLED, EventKind.DELETED})


def _frame(context: RequestContext[Any, Any], event: Event) -> bytes:
    if event.kind is EventKind.MISSED:
        return sse.with_position(_missed_body(context, event), event.position)
    return sse.with_position(_encode(event_shape(event, context.query.values)), event.position)


def _shared_frame(context: RequestContext[Any, Any], buffered: SharedEvent, position: str) -> bytes:
    """Encode an event like `_frame`. All followers share the encoded part without the position."""
    if buffered.event.kind is EventKind.MISSED:
        return sse.with_position(_missed_body(context, buffered.event), position)
    body = buffered.encodings.get(context.query.values)
    if body is None:
        body = buffered.encodings[context.query.values] = _encode(event_shape(buffered.event, context.query.values))
    return sse.with_position(body, position)


def _missed_body(context: RequestContext[Any, Any], event: Event) -> bytes:
    count = None if context.principal.queues else event.missed  # the engine counts the events of all queues
    return _encode(missed_shape(event, count))


def _encode(shape: EventShape) -> bytes:
    return sse.encode_body(shape.kind, msgspec.json.encode(shape))


def _snapshot(job: Job, position: str) -> bytes:
    return sse.with_position(_encode(snapshot_shape(job)), position)


def _position(context: RequestContext[Any, Any]) -> str:
    """Return the start position. A browser that reconnects sends its old query and the header."""
    return context.request.head.headers.get("last-event-id", "") or str(context.query.position)


async def _next(context: RequestContext[Any, Any], following: SharedFollower) -> list[Arrival]:
    """Wait for events. Returns none after the keep-alive interval, or when the server stops."""
    try:
        async with asyncio.timeout(sse.KEEP_ALIVE_S):
            return await context.state.wait_or_stop(following.next_batch(BATCH), [])
    except TimeoutError:
        return []


async def _pause(context: RequestContext[Any, Any]) -> None:
    """Wait before the next write, so that it includes the events of this time."""
    await context.state.wait_or_stop(asyncio.sleep(context.state.followers.pause_s), None)


@routes.get(
    "/events", roles=READERS, query=EventsQuery, response=EventShape, response_media=sse.EVENT_STREAM, waits=True,
    headers=_HEADERS, refuses=(errors.TooLarge,),
)  # fmt: skip
async def events(context: RequestContext[None, EventsQuery]) -> StreamedResponse:
    """Follow events as server-sent events.

    The stream starts now, or after the event whose id is given. A client that was away for too long gets the number of
    events it missed. A token limited to some queues sees the events of these queues."""
    if context.query.queue:
        context.check_queue(context.query.queue)
    following = context.service.follow(_position(context), queue=context.query.queue, shared=True)
    follower = await context.state.followers.follow(context.principal, following)
    return event_stream(_stream_events(context, following), follower)


async def _stream_events(
    context: RequestContext[None, EventsQuery], following: SharedFollower
) -> AsyncGenerator[bytes, None]:
    yield sse.encode_position(following.position)
    clock = asyncio.get_running_loop().time
    written_at_s = clock()
    while not context.state.stopping.is_set():
        arrivals = await _next(context, following)
        frames = [
            _shared_frame(context, buffered, position)
            for buffered, position in arrivals
            if _is_visible(context, buffered.event)
        ]
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
    """Join frames into chunks. Without frames there is one empty chunk, so that the token is checked each time."""
    return sse.join_frames(frames) if frames else (b"",)


def _is_visible(context: RequestContext[Any, Any], event: Event) -> bool:
    return event.kind is EventKind.MISSED or context.principal.may_use(event.queue)


@routes.get(
    "/jobs/{id}/events", roles=JOB_READERS, query=JobEventsQuery, response=EventShape, other_responses={204: None},
    response_media=sse.EVENT_STREAM, waits=True, headers=_HEADERS, refuses=(*ABSENT, errors.TooLarge),
)  # fmt: skip
async def job_events(context: RequestContext[None, JobEventsQuery]) -> StreamedResponse | Response:
    """Follow one job until its end, as server-sent events.

    The first event is a snapshot of the job. The stream ends after the event of its end, or at once if it has ended. A
    client that reconnects with the id of the last event gets the events since then, or 204 if there are none: a browser
    then stops reconnecting."""
    job_id, position = context.job_id, _position(context)
    has_seen_end = position == ENDED
    if has_seen_end:
        position = ""
    found = await _read_job(context, job_id)
    if not isinstance(found, Job) or found.state.is_ended:
        return (
            Response(204)
            if has_seen_end and isinstance(found, Job)
            else await _stream_past_events(context, job_id, found, position)
        )
    follower = await context.state.followers.follow(
        context.principal, context.service.follow(position, job=job_id, shared=True)
    )
    try:
        found = await _read_job(context, job_id)  # again: later changes arrive as events
        if isinstance(found, Job):
            return event_stream(_stream_job_events(context, follower.following, found), follower)
    except BaseException:
        await follower.__aexit__()
        raise
    await follower.__aexit__()
    return await _stream_past_events(context, job_id, found, position)


async def _read_job(context: RequestContext[Any, Any], job_id: bytes) -> Job | Refusal:
    [found] = await context.service.job([job_id])
    if not isinstance(found, Timeline):
        return Gone() if isinstance(found, errors.AlreadyEnded) else found
    context.check_found(found.job.queue)
    return found.job


async def _stream_job_events(
    context: RequestContext[None, JobEventsQuery], following: SharedFollower, job: Job
) -> AsyncGenerator[bytes, None]:
    yield _snapshot(job, following.position)
    has_ended = job.state.is_ended
    while not has_ended and not context.state.stopping.is_set():
        arrivals = await _next(context, following)
        frames, has_ended = await _frames_until_end(context, job.id, arrivals)
        for chunk in _chunks(frames or [sse.encode_keep_alive(following.reached)]):
            if not await context.state.still_admits(context.request.head, JOB_READERS):
                return
            yield chunk
        if arrivals and not has_ended:
            await _pause(context)


async def _frames_until_end(
    context: RequestContext[None, JobEventsQuery], job_id: bytes, arrivals: Sequence[Arrival]
) -> tuple[list[bytes], bool]:
    """Return the frames of these events, and whether the job ended with one of them."""
    frames, has_ended = [], False
    for buffered, position in arrivals:
        frames.append(_shared_frame(context, buffered, position))
        has_ended = buffered.event.kind in _FINAL_KINDS
        if buffered.event.kind is EventKind.MISSED:  # the end of the job may be among them
            found = await _read_job(context, job_id)
            if isinstance(found, Job):
                frames.append(_snapshot(found, position))
            has_ended = not isinstance(found, Job) or found.state.is_ended
        if has_ended:
            break
    return frames, has_ended


async def _stream_past_events(
    context: RequestContext[None, JobEventsQuery], job_id: bytes, found: Job | Refusal, position: str
) -> StreamedResponse | Response:
    """Stream the events of an ended job that its follower has not seen."""
    past = _events_since(context, job_id, position)
    first = await anext(past, None) if position else None
    if first is None and isinstance(found, Refusal):
        raise found
    if first is None and position and "last-event-id" in context.request.head.headers:
        return Response(204)
    return event_stream(_snapshot_and_events(context, found, first, past, position or ENDED))


async def _snapshot_and_events(
    context: RequestContext[Any, Any],
    found: Job | Refusal,
    first: Event | None,
    others: AsyncIterator[Event],
    position: str,
) -> AsyncGenerator[bytes, None]:
    if isinstance(found, Job):
        yield _snapshot(found, position)
    if first is not None:
        yield _frame(context, first)
        async for event in others:
            yield _frame(context, event)


async def _events_since(context: RequestContext[Any, Any], job_id: bytes, position: str) -> AsyncIterator[Event]:
    while True:
        page = await context.service.events(position, most=PAGE_MAX, job=job_id)
        for event in page.events:
            if _is_visible(context, event):
                yield event
        if page.position == position:
            return
        position = page.position
