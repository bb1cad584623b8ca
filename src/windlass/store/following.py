"""Follows what happens in all partitions at once: in an event loop, or without one."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, TypeVar

import msgspec

from ..core.errors import EngineUnavailable
from ..core.event import Event, EventPage, Happening
from .calls import events
from .calls.call import Flow
from .link import Link
from .store import Store
from .tail import Happened, Tail, position_of, tails

log = logging.getLogger("windlass.store")

T = TypeVar("T")
RENEW_S = 20.0  # a third of the time for which the engine records without hearing from us
WATCHDOG_S = 5.0
TROUBLE_PAUSE_S = 0.2
READ_AT_ONCE = 500
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
        self._inbox: asyncio.Queue[list[Happened] | BaseException] = asyncio.Queue()
        self._places: dict[int, events.Place] = {}
        self._readers: list[_Reader] = []
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

    async def __aiter__(self) -> AsyncIterator[Event]:
        if self._readers:
            while True:
                yield await self.next()
        async with self:
            while True:
                yield await self.next()

    async def next(self) -> Event:
        while not self._ready:
            batch = await self._inbox.get()
            if isinstance(batch, BaseException):
                raise batch
            self._sort_out(batch)
        event = self._ready.popleft()
        self._start = event.position
        return event

    # Without one: the same, in a loop of our own that runs while the caller waits

    def __enter__(self) -> Following:
        self._store.open_now()
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
        return self._store.run_now(flow)

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
        self._readers = [_Reader(self._store, tail, run, self._inbox) for tail in found.values()]
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


class _Reader:
    """Reads one partition's stream on a link of its own, which renews itself; says again and again that it follows."""

    def __init__(
        self,
        store: Store,
        tail: Tail,
        run: Callable[[Flow[Any]], Coroutine[Any, Any, Any]],
        inbox: asyncio.Queue[list[Happened] | BaseException],
    ) -> None:
        self.tail = tail
        self._run = run
        self._inbox = inbox
        self._key = f"{store.root(tail.partition)}:events"
        self._link: Link = store.new_link(tail.partition, self._connecting)
        self._connections = 0
        self._tasks: set[asyncio.Task[Any]] = set()

    async def register(self) -> list[Happened]:
        given = self.tail.place
        followed = await self._run(self._follow())
        self.start: events.Place = given or followed.coming
        return self.tail.registered(followed)

    def _follow(self) -> Flow[events.Followed]:
        return (yield events.follow(self.tail.place, READ_AT_ONCE, self.tail.partition))  # type: ignore[no-any-return]

    def begin(self) -> None:
        self._spawn(self._read_until_closed())

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._link.close()
        await self._link.wait_closed()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name="windlass-follow")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _connecting(self) -> None:
        """The engine may have forgotten that somebody follows: it is told while the read is repeated."""
        self._connections += 1
        if self._connections > 1:
            self._spawn(self._register_again())

    async def _register_again(self) -> None:
        place = self.tail.place
        try:
            followed = await self._run(self._follow())
            # What is there comes with the read that is under way; that nothing can come from this place is told here.
            if not followed.entries and self.tail.place == place:
                await self._hand_over(self.tail.registered(followed))
        except EngineUnavailable as error:
            log.info("Could not say that somebody follows (%s); the next renewal does.", error)

    async def _read_until_closed(self) -> None:
        try:
            while True:
                try:
                    await self._read_until_renewal()
                    await self._hand_over(self.tail.registered(await self._run(self._follow())))
                except EngineUnavailable as error:
                    log.warning("The engine cannot be reached (%s); still trying.", error)
                    await asyncio.sleep(TROUBLE_PAUSE_S)
        except Exception as error:
            await self._inbox.put(error)

    async def _read_until_renewal(self) -> None:
        renew_at_s = time.monotonic() + RENEW_S
        while (left_s := renew_at_s - time.monotonic()) > 0:
            how = ("COUNT", READ_AT_ONCE, "BLOCK", max(1, int(left_s * 1000)))
            reply = await self._link.call(
                "XREAD", *how, "STREAMS", self._key, self.tail.behind, timeout_s=left_s + WATCHDOG_S
            )
            if reply:
                await self._hand_over(self.tail.read(reply[0][1]))

    async def _hand_over(self, batch: list[Happened]) -> None:
        if batch:
            await self._inbox.put(batch)


def partitions_of(store: Store, queue: str, job: bytes) -> list[int]:
    if job:
        return [store.partition_of_job(job)]
    return [store.partition_of_queue(queue)] if queue else list(range(store.partitions))


def is_wanted(event: Event, queue: str, job: bytes) -> bool:
    """A gap concerns everybody: what is missing may have been wanted."""
    return event.kind is Happening.MISSED or (queue in ("", event.queue) and job in (b"", event.job))


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
