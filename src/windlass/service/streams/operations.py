"""Follow the stream of a job, as it grows and after its end."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from windlass.core.durable import StreamPage
from windlass.core.event import EventKind
from windlass.core.validation.durable import check_stream_position
from windlass.core.validation.values import check_id
from windlass.service.durable import DurableOperations
from windlass.service.events import EventOperations
from windlass.store.events.shared_follow import SharedFollower

from .follower import StreamFeeds, StreamFollower

PAGE = 500  # entries per read
_OTHER_NEWS = frozenset({EventKind.PROGRESS, EventKind.EMITTED})  # neither an entry nor a change of the state


class StreamOperations(DurableOperations, EventOperations):
    _feeds: StreamFeeds | None = None

    def follow_stream(self, job_id: bytes, *, after: int = 0) -> StreamFollower:
        """Follow the stream of a job from a position until its end, without polling. Works after the end, too. All
        followers of a stream share its reads."""
        check_id("id", job_id)
        check_stream_position(after, 1)
        if self._feeds is None:
            self._feeds = StreamFeeds()
        return StreamFollower(
            self._feeds,
            job_id,
            lambda position: self._stream_pages(job_id, position),
            lambda position: self.read_stream(job_id, after=position, most=PAGE),
            after,
        )

    async def _stream_pages(self, job_id: bytes, after: int) -> AsyncGenerator[StreamPage, None]:
        """Yield the pages of a stream until the job ends. The first read is for streams that have ended: they need no
        subscription."""
        page = await self.read_stream(job_id, after=after, most=PAGE)
        yield page
        if page.is_ended:
            return
        async with self.follow(job=job_id, shared=True) as following:
            while not page.is_ended:
                after, last = _end_of(page, after), page.last
                page = await self.read_stream(job_id, after=after, most=PAGE)
                yield page
                if page.last < last:  # the job repeats, and its next occurrence has a stream of its own
                    return
                if _end_of(page, after) >= page.last and not page.is_ended:
                    await _wait_for_news(following)


def _end_of(page: StreamPage, after: int) -> int:
    return page.items[-1].position if page.items else after


async def _wait_for_news(following: SharedFollower) -> None:
    """Wait until the stream has grown or the state of the job has changed."""
    while not any(shared.event.kind not in _OTHER_NEWS for shared, _ in await following.next_batch(PAGE)):
        pass
