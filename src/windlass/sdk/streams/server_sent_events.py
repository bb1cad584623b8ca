"""Stream of a job as server-sent events, for the response of a web framework."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from windlass.core.durable import StreamPage
from windlass.core.errors import AlreadyEnded, BadInput, UnknownJob
from windlass.service.streams.follower import StreamFollower
from windlass.wire import sse
from windlass.wire.durable.streams import KEEP_ALIVE, encode_end, encode_item, parse_position

if TYPE_CHECKING:
    from windlass.sdk.handle import JobHandle

MEDIA_TYPE = sse.EVENT_STREAM
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # proxies must not buffer events


class Refused(NamedTuple):
    """Response in place of the stream. 204: the client has seen the end, and a browser stops reconnecting."""

    status: int
    text: str


class EventSourceStream:
    """Events of one client. `last_event_id`: the header that a browser sends when it reconnects; else empty."""

    def __init__(self, job: JobHandle[Any], last_event_id: str) -> None:
        self._app = job.app
        self._id = job.id_bytes
        self._last_id = last_event_id
        self._after = 0

    async def check(self) -> Refused | None:
        """Look for the stream before the response begins. None: it can be sent."""
        try:
            self._after = parse_position(self._last_id) if self._last_id else 0
            service = await self._app.aservice()
            return self._check_page(await service.read_stream(self._id, after=self._after, most=1))
        except (BadInput, UnknownJob, AlreadyEnded) as error:
            return Refused(_STATUSES[type(error)], str(error))

    def check_sync(self) -> Refused | None:
        return self._app.loop_thread.wait(self.check())

    def _check_page(self, page: StreamPage) -> Refused | None:
        return Refused(204, "") if self._last_id and page.is_ended and not page.items else None

    async def frames(self) -> AsyncGenerator[bytes, None]:
        """Yield events until the job ends: its values, marks of new attempts, and the final state."""
        yield KEEP_ALIVE  # a proxy sees that the answer has begun
        service = await self._app.aservice()
        try:
            async with service.follow_stream(self._id, after=self._after) as follower:
                while (chunk := await _next_chunk(follower)) is not None:
                    yield chunk
                yield encode_end(follower.state.label)
        except (UnknownJob, AlreadyEnded):
            yield encode_end("deleted")

    def frames_sync(self) -> Iterator[bytes]:
        """Yield the same without an event loop. All such readers of a process share the reads of one thread."""
        thread, frames = self._app.loop_thread, self.frames()
        try:
            while chunk := thread.wait(_next_or_nothing(frames)):
                yield chunk
        finally:
            thread.wait(frames.aclose())


_STATUSES: dict[type[Exception], int] = {BadInput: 400, UnknownJob: 404, AlreadyEnded: 410}


async def _next_or_nothing(frames: AsyncGenerator[bytes, None]) -> bytes:
    return await anext(frames, b"")


async def _next_chunk(follower: StreamFollower) -> bytes | None:
    """Wait for entries. Returns a comment if none come for a while, and None at the end."""
    try:
        async with asyncio.timeout(sse.KEEP_ALIVE_S):
            batch = await follower.next_batch()
    except TimeoutError:
        return KEEP_ALIVE
    return b"".join(encode_item(shared.item) for shared in batch) if batch else None
