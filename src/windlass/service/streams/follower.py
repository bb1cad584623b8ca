"""Followers of streams, and the feeds that they share."""

from __future__ import annotations

from collections.abc import AsyncIterator

from windlass.core.durable import StreamItem
from windlass.core.states import State

from .feed import Pages, ReadPage, SharedItem, StreamFeed


class StreamFeeds:
    """Feeds of one event loop, by job."""

    def __init__(self) -> None:
        self._feeds: dict[bytes, StreamFeed] = {}

    def enter(self, job_id: bytes, pages: Pages, read_page: ReadPage, after: int) -> StreamFeed:
        """Return the feed of a job. It runs at least until the follower leaves it."""
        feed = self._feeds.get(job_id)
        if feed is None or feed.is_over:  # an ended job may run again: its next follower looks for itself
            feed = self._feeds[job_id] = StreamFeed(pages, read_page, after)
        feed.followers += 1
        return feed

    async def leave(self, job_id: bytes, feed: StreamFeed) -> None:
        feed.followers -= 1
        if not feed.followers:
            if self._feeds.get(job_id) is feed:
                del self._feeds[job_id]
            await feed.close()


class StreamFollower:
    """Iterator over the entries of a stream after a position, until the end of the job: `async with` and `async for`.

    It starts when the block is entered. A job that does not exist is refused there."""

    def __init__(self, feeds: StreamFeeds, job_id: bytes, pages: Pages, read_page: ReadPage, after: int) -> None:
        self.position = after  # of the last entry returned
        self._feeds = feeds
        self._job_id = job_id
        self._pages = pages
        self._read_page = read_page
        self._feed: StreamFeed | None = None

    @property
    def state(self) -> State:
        """State of the job, as far as known: after the last entry, the state in which it ended."""
        return self._started().state

    @property
    def is_exhausted(self) -> bool:
        """True if the job has ended and all entries were returned."""
        feed = self._started()
        return feed.is_over and self.position >= feed.last

    async def __aenter__(self) -> StreamFollower:
        self._feed = self._feeds.enter(self._job_id, self._pages, self._read_page, self.position)
        try:
            await self._feed.started()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_exc: object) -> None:
        feed, self._feed = self._feed, None
        if feed is not None:
            await self._feeds.leave(self._job_id, feed)

    async def __aiter__(self) -> AsyncIterator[StreamItem]:
        while batch := await self.next_batch():
            for shared in batch:
                yield shared.item

    async def next_batch(self) -> list[SharedItem]:
        """Return the next entries; wait for one if there is none yet. Empty: the stream has ended."""
        found = await self._started().next_items(self.position)
        if found:
            self.position = found[-1].item.position
        return found

    def _started(self) -> StreamFeed:
        if self._feed is None:
            raise RuntimeError("The follower is not started; start it with `async with`.")
        return self._feed
