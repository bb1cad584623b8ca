"""Follower of the events of all partitions, with or without an event loop, and pages of events."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Protocol, TypeVar

import msgspec

from windlass.core.event import Event, EventPage
from windlass.store.commands import events
from windlass.store.commands.command import Flow
from windlass.store.store import Store

from .stream_position import StreamEvent, format_position, parse_positions
from .stream_reader import ReadResult, StreamReader
from .subscriptions import is_wanted

T = TypeVar("T")
BATCHES_AHEAD = 16  # batches that are read ahead of the caller; the engine keeps the rest


class EventFollower:
    """Endless iterator over events: `async with` and `async for`, or `with` and `for`. It starts with the events after
    the beginning of the block; without a block, after the first event is requested."""

    def __init__(self, store: Store, position: str, queue: str, job: bytes) -> None:
        self._store = store
        self._start = position
        self._queue = queue
        self._job = job
        self._ready: deque[Event] = deque()
        self._inbox: asyncio.Queue[ReadResult] = asyncio.Queue()
        self._next_positions: dict[int, events.EventPosition] = {}
        self._readers: list[StreamReader] = []
        self._loop: asyncio.AbstractEventLoop | None = None  # for a caller without an event loop

    @property
    def position(self) -> str:
        """Position after the last event returned."""
        return self._start

    # In an event loop

    async def __aenter__(self) -> EventFollower:
        await self._store.open()
        await self._begin(self._store.run)
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self._end()

    def __aiter__(self) -> AsyncIterator[Event]:
        return iterate_events(self, bool(self._readers))

    async def next(self) -> Event:
        while not self._ready:
            batch = await self._inbox.get()
            if isinstance(batch, Exception):
                raise batch
            self._filter_batch(batch)
        event = self._ready.popleft()
        self._start = event.position
        return event

    # Without an event loop: the same, in a private loop that runs while the caller waits

    def __enter__(self) -> EventFollower:
        self._store.open_sync()
        self._loop = asyncio.new_event_loop()
        try:
            self._in_loop(self._begin(self._run_now))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        loop = self._loop
        if loop is not None:
            self._in_loop(self._end())
            loop.close()
            self._loop = None

    def __iter__(self) -> Iterator[Event]:
        if self._readers:
            while True:
                yield self.next_sync()
        with self:
            while True:
                yield self.next_sync()

    def next_sync(self) -> Event:
        return self._in_loop(self.next())

    async def _run_now(self, flow: Flow[Any]) -> Any:
        return self._store.run_sync(flow)

    def _in_loop(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            work.close()
            raise RuntimeError("The follower is not started; without an event loop, start it with `with` or `for`.")
        return self._loop.run_until_complete(work)

    # Shared by both

    async def _begin(self, run: Callable[[Flow[Any]], Coroutine[Any, Any, Any]]) -> None:
        self._inbox = asyncio.Queue(BATCHES_AHEAD)
        self._ready.clear()
        found = parse_positions(self._start, partitions_of(self._store, self._queue, self._job))
        self._readers = [StreamReader(self._store, stream, run, self._inbox.put) for stream in found.values()]
        try:
            # Register first and read then, so that no event is missed.
            first = [await reader.register() for reader in self._readers]
        except BaseException:
            await self._end()
            raise
        self._next_positions = {reader.stream.partition: reader.start_position for reader in self._readers}
        self._start = format_position(self._next_positions)
        for batch in first:
            self._filter_batch(batch)
        for reader in self._readers:
            reader.start_reading()

    async def _end(self) -> None:
        readers, self._readers = self._readers, []
        for reader in readers:
            await reader.close()

    def _filter_batch(self, batch: list[StreamEvent]) -> None:
        for partition, next_position, event in batch:
            self._next_positions[partition] = next_position
            if is_wanted(event, self._queue, self._job):
                self._ready.append(msgspec.structs.replace(event, position=format_position(self._next_positions)))


class EventSource(Protocol):
    async def __aenter__(self) -> Any: ...

    async def __aexit__(self, *_exc: object) -> None: ...

    async def next(self) -> Event: ...


async def iterate_events(follower: EventSource, has_begun: bool) -> AsyncIterator[Event]:
    """Yield events without end. A follower that was not started is started for the loop, and closed after it."""
    async with contextlib.nullcontext() if has_begun else follower:
        while True:
            yield await follower.next()


def partitions_of(store: Store, queue: str, job: bytes) -> list[int]:
    if job:
        return [store.partition_of_job(job)]
    return [store.partition_of_queue(queue)] if queue else list(range(store.partitions))


def page_flow(store: Store, position: str, most: int, queue: str, job: bytes) -> Flow[EventPage]:
    """Return one page of events, from all partitions in turn. Reading a page registers a follower: the engine records
    events until the next page."""
    found = parse_positions(position, partitions_of(store, queue, job))
    share = max(1, most // len(found))
    stream_events: list[StreamEvent] = []
    next_positions = {partition: stream.next_position for partition, stream in found.items()}
    for partition, stream in found.items():
        stream_events += stream.process_page((yield events.follow(stream.next_position, share, partition)))
        next_positions[partition] = next_positions[partition] or stream.next_position
    known = {
        partition: next_position for partition, next_position in next_positions.items() if next_position is not None
    }
    page = []
    for partition, next_position, event in stream_events:
        known[partition] = next_position
        if is_wanted(event, queue, job):
            page.append(msgspec.structs.replace(event, position=format_position(known)))
    return EventPage(page, format_position(known))
