"""Follower that shares its readers with the other followers of the process. It reads pages until it has caught up, then
receives events from the shared readers."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import TypeAlias, cast

import msgspec

from windlass.core.event import Event
from windlass.store.commands import events
from windlass.store.commands.command import Flow
from windlass.store.commands.events import EventPosition, StreamPage
from windlass.store.store import Store

from .buffer import EventBuffer, SharedEvent
from .fanout import SharedReader
from .follow import iterate_events, partitions_of
from .stream_position import StreamPosition, format_part, format_position, parse_positions
from .stream_reader import READ_AT_ONCE, READ_RETRIES
from .subscriptions import is_wanted

log = logging.getLogger("windlass.store")


Arrival: TypeAlias = tuple[SharedEvent, str]  # with the position of this follower after the event
PAGES_MAX = 2_000  # events of all partitions that are read ahead of the caller


class SharedFollower:
    """Endless iterator over events, for `async with` and `async for`.

    Events and positions are those of `EventFollower`. A slow caller gets the number of events that it missed.
    """

    def __init__(self, store: Store, position: str, queue: str, job: bytes) -> None:
        self.queue = queue
        self.job = job
        self._store = store
        self._start = position
        self._parts: dict[int, str] = {}  # of the position, by partition and in order
        self._shared: dict[int, SharedReader] = {}
        self._behind: dict[int, StreamPosition] = {}  # partitions that are still read by pages
        self._targets: dict[int, EventPosition] = {}  # positions of the shared readers at subscription; empty before it
        self._turn = asyncio.Lock()
        self._pages: deque[SharedEvent] = deque()
        self._buffer = EventBuffer()
        self._next_positions: dict[int, EventPosition] = {}  # earlier events of the shared readers are known
        self._has_news = asyncio.Event()
        self._ended_by: Exception | None = None

    @property
    def position(self) -> str:
        """Position after the last event returned."""
        return ",".join(self._parts.values()) or self._start

    @property
    def reached(self) -> str:
        """Position to continue from without reading unwanted events again. If all events were returned, it is further
        than `position`. Useful for followers of rare events that may have to reconnect."""
        if self._behind or self._pages or self._buffer or not self._shared:
            return self.position
        return format_position(
            {at: max(self._next_positions[at], shared.next_position) for at, shared in self._shared.items()}
        )

    async def __aenter__(self) -> SharedFollower:
        await self._store.open()
        await self._begin()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self._leave()

    def __aiter__(self) -> AsyncIterator[Event]:
        return iterate_events(self, bool(self._shared))

    async def next(self) -> Event:
        [(shared_event, position)] = await self.next_batch(1)
        return (
            shared_event.event
            if position == shared_event.part
            else msgspec.structs.replace(shared_event.event, position=position)
        )

    async def next_batch(self, most: int) -> list[Arrival]:
        """Wait for an event, and return it with the others that have arrived, at most `most`."""
        while not (found := self.take_arrived(most)):
            await self._wait_for_more()
        return found

    def take_arrived(self, most: int) -> list[Arrival]:
        """Return events that have arrived, without waiting."""
        found: list[Arrival] = []
        while self._pages and len(found) < most:
            found.append(self._mark_delivered(self._pages.popleft()))
        while self._buffer and len(found) < most and not (self._behind or self._pages):
            for shared_event in self._buffer.take(most - len(found)):
                if shared_event.is_rewound or shared_event.next_position > self._next_positions[shared_event.partition]:
                    self._next_positions[shared_event.partition] = shared_event.next_position
                    found.append(self._mark_delivered(shared_event))
        return found

    # Called by a shared reader while it works

    def deliver(self, batch: Sequence[SharedEvent]) -> None:
        self._buffer.extend(batch)
        self._has_news.set()

    def end(self, error: Exception) -> None:
        self._ended_by = error
        self._has_news.set()

    # Start, end and wait

    async def _begin(self) -> None:
        found = parse_positions(self.position, partitions_of(self._store, self.queue, self.job))
        given = {partition: stream.next_position for partition, stream in sorted(found.items())}
        self._leave()
        self._behind, self._buffer, self._ended_by = dict(found), EventBuffer(), None
        self._shared = {partition: self._store.fanout.enter(partition, self) for partition in given}
        try:
            for shared in self._shared.values():
                await shared.started()
            await self._read_pages()
        except BaseException:
            self._leave()
            raise
        self._parts = {
            partition: format_part(partition, next_position or self._next_positions[partition])
            for partition, next_position in given.items()
        }

    def _leave(self) -> None:
        shared, self._shared = self._shared, {}
        for reader in shared.values():
            self._store.fanout.leave(reader, self)
        self._behind, self._targets = {}, {}
        self._pages.clear()

    def _mark_delivered(self, shared_event: SharedEvent) -> Arrival:
        self._parts[shared_event.partition] = shared_event.part
        return shared_event, shared_event.part if len(self._parts) == 1 else self.position

    async def _wait_for_more(self) -> None:
        if self._ended_by is not None:
            raise self._ended_by
        if not self._shared:
            raise RuntimeError("The follower is not started; start it with `async with` or `async for`.")
        if not self._behind:
            self._has_news.clear()
            await self._has_news.wait()
            return
        try:
            async with self._turn:
                if self._behind and not self._pages:
                    await self._read_pages()
        except READ_RETRIES.errors as error:
            await READ_RETRIES.pause_after(error)

    # Catch up

    async def _read_pages(self) -> None:
        """Read one page from each partition that is behind. A cancelled caller has changed nothing."""
        behind, has_joined = list(self._behind.values()), bool(self._targets)
        most = min(READ_AT_ONCE, PAGES_MAX // len(behind) + 1)
        pages = await self._store.run(_pages_flow(behind, most))
        for stream, page in zip(behind, pages, strict=True):
            self._add_page(stream, page)
        if not has_joined:
            self._subscribe_if_near([len(page.entries) < most for page in pages])
        for stream, page in zip(behind, pages, strict=True):
            if self._has_arrived(stream, is_at_end=has_joined and not page.entries):
                del self._behind[stream.partition]

    def _add_page(self, stream: StreamPosition, page: StreamPage) -> None:
        for stream_event in stream.process_page(page):
            if is_wanted(stream_event.event, self.queue, self.job):
                self._pages.append(SharedEvent(stream_event))
        self._next_positions[stream.partition] = _next_position_of(stream)

    def _subscribe_if_near(self, is_at_end: Sequence[bool]) -> None:
        """Subscribe to the shared readers once little is left to read. Their events are buffered from now on, and pages
        are read up to their positions only. So catching up ends, however many events happen during it."""
        if all(here or self._is_near(stream) for here, stream in zip(is_at_end, self._behind.values(), strict=True)):
            for partition, shared in self._shared.items():
                shared.subscriptions.add(self)
                self._targets[partition] = shared.next_position

    def _is_near(self, stream: StreamPosition) -> bool:
        here, there = _next_position_of(stream), self._shared[stream.partition].next_position
        return here.epoch == there.epoch and there.ordinal - here.ordinal <= READ_AT_ONCE

    def _has_arrived(self, stream: StreamPosition, is_at_end: bool) -> bool:
        target = self._targets.get(stream.partition)
        return target is not None and (is_at_end or _next_position_of(stream) >= target)


def _next_position_of(stream: StreamPosition) -> EventPosition:
    return cast(EventPosition, stream.next_position)  # known from the first page on


def _pages_flow(behind: Sequence[StreamPosition], most: int) -> Flow[list[StreamPage]]:
    return (yield [events.follow(stream.next_position, most, stream.partition) for stream in behind])  # type: ignore[no-any-return]
