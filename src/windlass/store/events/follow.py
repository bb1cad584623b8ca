"""Follows what happens in all partitions at once: in an event loop, or without one."""

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

from .stream_position import Happened, position_of, tails
from .stream_reader import Read, Reader
from .subscriptions import is_wanted

T = TypeVar("T")
BATCHES_AHEAD = 16  # read before the caller asks for them; the engine keeps the rest


class Following:
    """An endless iterator over events: `async with` and `async for`, or `with` and `for`. Within the block, what
    happens after its beginning is seen; without one, after the first event was asked for."""

    def __init__(self, store: Store, position: str, queue: str, job: bytes) -> None:
        self._store = store
        self._start = position
        self._queue = queue
        self._job = job
        self._ready: deque[Event] = deque()
        self._inbox: asyncio.Queue[Read] = asyncio.Queue()
        self._places: dict[int, events.EventPosition] = {}
        self._readers: list[Reader] = []
        self._loop: asyncio.AbstractEventLoop | None = None  # our own, for a caller who has none

    @property
    def position(self) -> str:
        """Behind the last event that was given out."""
        return self._start

    # In an event loop

    async def __aenter__(self) -> Following:
        await self._store.open()
        await self._begin(self._store.run)
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self._end()

    def __aiter__(self) -> AsyncIterator[Event]:
        return endless(self, bool(self._readers))

    async def next(self) -> Event:
        while not self._ready:
            batch = await self._inbox.get()
            if isinstance(batch, Exception):
                raise batch
            self._sort_out(batch)
        event = self._ready.popleft()
        self._start = event.position
        return event

    # Without one: the same, in a loop of our own that runs while the caller waits

    def __enter__(self) -> Following:
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
                yield self.next_now()
        with self:
            while True:
                yield self.next_now()

    def next_now(self) -> Event:
        return self._in_loop(self.next())

    async def _run_now(self, flow: Flow[Any]) -> Any:
        return self._store.run_sync(flow)

    def _in_loop(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            work.close()
            raise RuntimeError("Without an event loop a following begins with `with` or `for`.")
        return self._loop.run_until_complete(work)

    # What both share

    async def _begin(self, run: Callable[[Flow[Any]], Coroutine[Any, Any, Any]]) -> None:
        self._inbox = asyncio.Queue(BATCHES_AHEAD)
        self._ready.clear()
        found = tails(self._start, partitions_of(self._store, self._queue, self._job))
        self._readers = [Reader(self._store, tail, run, self._inbox.put) for tail in found.values()]
        try:
            # Registered first, then read: nothing falls between.
            first = [await reader.register() for reader in self._readers]
        except BaseException:
            await self._end()
            raise
        self._places = {reader.tail.partition: reader.start for reader in self._readers}
        self._start = position_of(self._places)
        for batch in first:
            self._sort_out(batch)
        for reader in self._readers:
            reader.begin()

    async def _end(self) -> None:
        readers, self._readers = self._readers, []
        for reader in readers:
            await reader.close()

    def _sort_out(self, batch: list[Happened]) -> None:
        for partition, place, event in batch:
            self._places[partition] = place
            if is_wanted(event, self._queue, self._job):
                self._ready.append(msgspec.structs.replace(event, position=position_of(self._places)))


class Follows(Protocol):
    async def __aenter__(self) -> Any: ...

    async def __aexit__(self, *_exc: object) -> None: ...

    async def next(self) -> Event: ...


async def endless(following: Follows, has_begun: bool) -> AsyncIterator[Event]:
    """A loop outside of a block is its own block."""
    async with contextlib.nullcontext() if has_begun else following:
        while True:
            yield await following.next()


def partitions_of(store: Store, queue: str, job: bytes) -> list[int]:
    if job:
        return [store.partition_of_job(job)]
    return [store.partition_of_queue(queue)] if queue else list(range(store.partitions))


def page_flow(store: Store, position: str, most: int, queue: str, job: bytes) -> Flow[EventPage]:
    """What is there, from all partitions in turn. Asking is following: what happens until the next page is recorded."""
    found = tails(position, partitions_of(store, queue, job))
    share = max(1, most // len(found))
    happened: list[Happened] = []
    places = {partition: tail.place for partition, tail in found.items()}
    for partition, tail in found.items():
        happened += tail.registered((yield events.follow(tail.place, share, partition)))
        places[partition] = places[partition] or tail.place
    known = {partition: place for partition, place in places.items() if place is not None}
    page = []
    for partition, place, event in happened:
        known[partition] = place
        if is_wanted(event, queue, job):
            page.append(msgspec.structs.replace(event, position=position_of(known)))
    return EventPage(page, position_of(known))
