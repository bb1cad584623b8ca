"""Routes of the streams of jobs: read a page, follow as server-sent events, write."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from windlass.core import errors
from windlass.core.errors import Refusal
from windlass.dialects.native.jobs import ABSENT, read_job
from windlass.dialects.native.verbs import verb
from windlass.service.streams.feed import SharedItem
from windlass.service.streams.follower import StreamFollower
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import JOB_READERS, WORKERS, Routes
from windlass.web.app.sse import event_stream
from windlass.web.listener.messages import Response, StreamedResponse
from windlass.wire import sse
from windlass.wire.durable.streams import (
    KEEP_ALIVE,
    DataForm,
    StreamPageShape,
    StreamQuery,
    StreamWriteItem,
    StreamWriteShape,
    StreamWrittenShape,
    encode_end,
    encode_item,
    parse_position,
    stream_page_shape,
)

routes = Routes("/api/v1", tag="Following")

_HEADERS = {"Last-Event-ID": "The id of the last event that the client has seen. The stream resumes after it."}


@routes.get(
    "/jobs/{id}/stream", operation="read_stream", roles=JOB_READERS, query=StreamQuery, response=StreamPageShape,
    stream_media=sse.EVENT_STREAM, other_responses={204: None}, waits=True, headers=_HEADERS, refuses=ABSENT,
)  # fmt: skip
async def read_stream(
    context: RequestContext[None, StreamQuery],
) -> StreamPageShape | StreamedResponse | Response:
    """Read the stream of a job: a page of entries, or, with `Accept: text/event-stream`, server-sent events.

    The events follow the job until its end. `message` has a value, `attempt` marks where a new attempt began, `end` has
    the final state. The id of an event is the position of the entry. A client that reconnects after the end gets 204:
    a browser then stops reconnecting."""
    await context.check_jobs([context.job_id])
    if sse.is_wanted(context.request.head.headers.get("accept", "")):
        return await _follow(context)
    query = context.query
    page = await read_job(context.service.read_stream(context.job_id, after=query.after, most=query.most))
    return stream_page_shape(page, context.response_encoding)


async def _follow(context: RequestContext[None, StreamQuery]) -> StreamedResponse | Response:
    last_id = context.request.head.headers.get("last-event-id", "")
    after = parse_position(last_id) if last_id else context.query.after
    following = context.service.follow_stream(context.job_id, after=after)
    follower = await read_job(context.state.followers.follow(context.principal, following))
    if last_id and following.is_exhausted:
        await follower.__aexit__()
        return Response(204)
    return event_stream(_frames(context, following), follower)


async def _frames(context: RequestContext[None, StreamQuery], following: StreamFollower) -> AsyncGenerator[bytes, None]:
    form = context.query.data
    yield KEEP_ALIVE  # a proxy sees that the answer has begun
    while not context.state.stopping.is_set():
        batch = await _next(context, following)
        if not await context.state.still_admits(context.request.head, JOB_READERS):
            return
        if batch is None:
            yield KEEP_ALIVE
        elif isinstance(batch, str):
            yield encode_end(batch)
            return
        else:
            for chunk in sse.join_frames(_shared_frame(shared, form) for shared in batch):
                yield chunk
            await context.state.wait_or_stop(asyncio.sleep(context.state.followers.pause_s), None)


async def _next(context: RequestContext[Any, Any], following: StreamFollower) -> list[SharedItem] | str | None:
    """Wait for entries. Returns the final state after the last entry, and None after the keep-alive interval, or when
    the server stops."""
    try:
        async with asyncio.timeout(sse.KEEP_ALIVE_S):
            batch = await context.state.wait_or_stop(following.next_batch(), None)
    except TimeoutError:
        return None
    except (errors.AlreadyEnded, errors.UnknownJob):
        return "deleted"
    return following.state.label if batch == [] else batch


def _shared_frame(shared: SharedItem, form: DataForm) -> bytes:
    """Encode an entry, once for all its readers."""
    frame = shared.encodings.get(form)
    if frame is None:
        frame = shared.encodings[form] = encode_item(shared.item, form)
    return frame


@verb(
    routes, "stream", operation="write_stream", batch="write-stream", roles=WORKERS, body=StreamWriteShape,
    item=StreamWriteItem, response=StreamWrittenShape,
    refuses=(
        errors.UnknownJob, errors.StaleLease, errors.AlreadyEnded, errors.WrongState, errors.TooLarge,
        errors.StreamFull,
    ),
)  # fmt: skip
async def write_stream(context: RequestContext[Any, Any], pairs: Sequence[tuple[bytes, StreamWriteShape]]) -> list[Any]:
    """Append values to the stream of a running job. They are kept as long as its result.

    A value has up to 64 KiB, a stream up to 50,000 values and 16 MiB."""
    requests = [shape.stream_write(job_id, context.body_encoding) for job_id, shape in pairs]
    answers = await context.service.write_stream(requests)
    return [answer if isinstance(answer, Refusal) else StreamWrittenShape(position=answer) for answer in answers]
