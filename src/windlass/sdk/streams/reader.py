"""Reader of the stream of one job."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.core.durable import StreamItem
from windlass.core.errors import AlreadyEnded
from windlass.core.ids import format_id
from windlass.sdk.failures import ResultGone, refuse_event_loop
from windlass.sdk.tasks.codec import decode
from windlass.service.streams.follower import StreamFollower

if TYPE_CHECKING:
    from windlass.sdk.app import Windlass


class StreamEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Entry of a stream: a value, or the mark of a new attempt."""

    position: int  # from 1; a reader that starts here gets the entries after it
    at: datetime
    attempt: int
    value: Any = None
    is_new_attempt: bool = False  # a new attempt begins here; there is no value


class JobStream:
    """Entries of a stream after a position until the job ends, for `async for`, or for `for` without an event loop."""

    def __init__(self, app: Windlass, job_id: bytes, start: int, value_type: Any) -> None:
        self._app = app
        self._id = job_id
        self._start = start
        self._type = value_type

    async def __aiter__(self) -> AsyncIterator[StreamEntry]:
        follower = await self._open()
        try:
            while entries := await self._next(follower):
                for entry in entries:
                    yield entry
        finally:
            await follower.__aexit__()

    def __iter__(self) -> Iterator[StreamEntry]:
        refuse_event_loop("Reading a stream with `for`", "async for entry in job.stream()")
        thread = self._app.loop_thread
        follower = thread.wait(self._open())
        try:
            while entries := thread.wait(self._next(follower)):
                yield from entries
        finally:
            thread.wait(follower.__aexit__())

    async def _open(self) -> StreamFollower:
        service = await self._app.aservice()
        try:
            return await service.follow_stream(self._id, after=self._start).__aenter__()
        except AlreadyEnded as error:
            raise self._gone() from error

    async def _next(self, follower: StreamFollower) -> list[StreamEntry]:
        try:
            batch = await follower.next_batch()
        except AlreadyEnded as error:
            raise self._gone() from error
        return [self._make_entry(shared.item) for shared in batch]

    def _make_entry(self, item: StreamItem) -> StreamEntry:
        return StreamEntry(
            position=item.position,
            at=datetime.fromtimestamp(item.at_ms / 1000, UTC),
            attempt=item.attempt,
            value=None if item.value is None else decode(item.value, self._type),
            is_new_attempt=item.is_new_attempt,
        )

    def _gone(self) -> ResultGone:
        return ResultGone(
            f"Job {format_id(self._id)} has ended, and its stream is no longer stored; see the option keep_result."
        )
