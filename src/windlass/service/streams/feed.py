"""Shared reader of the stream of one job. It keeps the latest entries for its followers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import TypeAlias

from windlass.core.durable import StreamItem, StreamPage
from windlass.core.states import State

WINDOW_BYTES = 1024 * 1024  # entries kept for followers; a slower follower reads older entries from the engine
ENTRY_BYTES = 100  # of an entry without its value, about
Pages: TypeAlias = Callable[[int], AsyncGenerator[StreamPage, None]]  # from a position on, until the end of the job
ReadPage: TypeAlias = Callable[[int], Awaitable[StreamPage]]


class SharedItem:
    """An entry for all its followers. They share one encoding of each form."""

    __slots__ = ("encodings", "item", "size")

    def __init__(self, item: StreamItem) -> None:
        self.item = item
        self.encodings: dict[str, bytes] = {}
        self.size = ENTRY_BYTES + (len(item.value.data) if item.value is not None else 0)


class StreamFeed:
    """Reads a stream from a position on. The entries behind its window are read once for all who ask at a time."""

    def __init__(self, pages: Pages, read_page: ReadPage, after: int) -> None:
        self.followers = 0
        self.state = State.RUNNING  # of the job; final when the feed is over
        self.is_over = False
        self.last = 0  # position of the last entry of the stream
        self._pages = pages
        self._read_page = read_page
        self._error: Exception | None = None
        self._before = after  # position before the first entry of the window
        self._window: list[SharedItem] = []
        self._window_bytes = 0
        self._past: dict[int, asyncio.Task[list[SharedItem]]] = {}  # reads of older entries that are under way
        self._news = asyncio.Event()  # replaced with each piece of news
        self._has_page = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run(after), name="windlass-stream-feed")

    async def started(self) -> None:
        """Wait for the first answer. Raises its refusal."""
        await self._has_page.wait()
        if self._error is not None:
            raise self._error

    async def close(self) -> None:
        tasks = {self._task, *self._past.values()}
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    async def next_items(self, after: int) -> list[SharedItem]:
        """Return entries after a position; wait for one if there is none yet. Empty: the stream has ended."""
        while True:
            found = self._window[after - self._before :] if after >= self._before else await self._read_past(after)
            if found:
                return found
            if self._error is not None:
                raise self._error
            if self.is_over:
                return []
            await self._news.wait()

    # Reading

    async def _run(self, after: int) -> None:
        try:
            async with aclosing(self._pages(after)) as pages:
                async for page in pages:
                    self._add(page)
        except Exception as error:
            self._error = error
        finally:
            self.is_over = True
            self._announce()

    def _add(self, page: StreamPage) -> None:
        self.state, self.last, self.is_over = page.state, page.last, page.is_ended
        items = [SharedItem(item) for item in page.items]
        self._window += items
        self._window_bytes += sum(item.size for item in items)
        self._trim()
        self._announce()

    def _trim(self) -> None:
        """Drop the older half of a window that is too large."""
        if self._window_bytes <= WINDOW_BYTES:
            return
        count, kept = len(self._window), 0
        while count and kept + self._window[count - 1].size <= WINDOW_BYTES // 2:
            count -= 1
            kept += self._window[count].size
        count = min(count, len(self._window) - 1)
        self._before = self._window[count - 1].item.position if count else self._before
        del self._window[:count]
        self._window_bytes = sum(item.size for item in self._window)

    def _announce(self) -> None:
        self._has_page.set()
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def _read_past(self, after: int) -> list[SharedItem]:
        task = self._past.get(after)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._read(after), name="windlass-stream-read")
            self._past[after] = task
            task.add_done_callback(lambda _: self._past.pop(after, None))
        return await asyncio.shield(task)

    async def _read(self, after: int) -> list[SharedItem]:
        return [SharedItem(item) for item in (await self._read_page(after)).items]
