"""One of many who follow events in this process: it catches up by pages, then hears from the shared readers."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import TypeAlias, cast

import msgspec

from windlass.core.errors import EngineUnavailable
from windlass.core.event import Event
from windlass.store.commands import events
from windlass.store.commands.command import Flow
from windlass.store.commands.events import EventPosition, StreamPage
from windlass.store.connection.retry_policy import pause_s_between
from windlass.store.store import Store

from .buffer import Backlog, Told
from .fanout import SharedReader
from .follow import endless, partitions_of
from .stream_position import Tail, part_of, position_of, tails
from .stream_reader import READ_AT_ONCE, TROUBLE_PAUSE_S
from .subscriptions import is_wanted

log = logging.getLogger("windlass.store")


Arrival: TypeAlias = tuple[Told, str]  # with the position behind it, of this follower
PAGES_MAX = 2_000  # events of all partitions that are read before they are asked for


class SharedFollowing:
    """An endless iterator over events, for `async with` and `async for`. Events and positions are those of `Following`;
    who is too slow is told how many events it has missed."""

    def __init__(self, store: Store, position: str, queue: str, job: bytes) -> None:
        self.queue = queue
        self.job = job
        self._store = store
        self._start = position
        self._parts: dict[int, str] = {}  # of the position, by partition and in their order
        self._shared: dict[int, SharedReader] = {}
        self._tails: dict[int, Tail] = {}  # of the partitions in which we are still behind
        self._targets: dict[int, EventPosition] = {}  # where their shared readers stood when we joined; empty: not yet
        self._turn = asyncio.Lock()
        self._pages: deque[Told] = deque()
        self._backlog = Backlog()
        self._places: dict[int, EventPosition] = {}  # the shared readers tell nothing new up to here
        self._has_news = asyncio.Event()
        self._ended_by: Exception | None = None

    @property
    def position(self) -> str:
        """Behind the last event that was given out."""
        return ",".join(self._parts.values()) or self._start

    @property
    def reached(self) -> str:
        """Where to go on without reading again what was not wanted: with nothing left to give out, it is further than
        `position`. Whoever follows what is rare and may have to come back wants to know it from time to time."""
        if self._tails or self._pages or self._backlog or not self._shared:
            return self.position
        return position_of({at: max(self._places[at], shared.place) for at, shared in self._shared.items()})

    async def __aenter__(self) -> SharedFollowing:
        await self._store.open()
        await self._begin()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self._leave()

    def __aiter__(self) -> AsyncIterator[Event]:
        return endless(self, bool(self._shared))

    async def next(self) -> Event:
        [(told, position)] = await self.next_some(1)
        return told.event if position == told.part else msgspec.structs.replace(told.event, position=position)

    async def next_some(self, most: int) -> list[Arrival]:
        """Wait for an event, and return it with those that have arrived as well, at most so many."""
        while not (found := self.arrived(most)):
            await self._more()
        return found

    def arrived(self, most: int) -> list[Arrival]:
        """Events that need no waiting."""
        found: list[Arrival] = []
        while self._pages and len(found) < most:
            found.append(self._given(self._pages.popleft()))
        while self._backlog and len(found) < most and not (self._tails or self._pages):
            for told in self._backlog.take(most - len(found)):
                if told.goes_back or told.place > self._places[told.partition]:
                    self._places[told.partition] = told.place
                    found.append(self._given(told))
        return found

    # From a shared reader, in the midst of its work

    def hear(self, batch: Sequence[Told]) -> None:
        self._backlog.extend(batch)
        self._has_news.set()

    def end(self, error: Exception) -> None:
        self._ended_by = error
        self._has_news.set()

    # Beginning, ending, waiting

    async def _begin(self) -> None:
        found = tails(self.position, partitions_of(self._store, self.queue, self.job))
        given = {partition: tail.place for partition, tail in sorted(found.items())}
        self._leave()
        self._tails, self._backlog, self._ended_by = dict(found), Backlog(), None
        self._shared = {partition: self._store.fanout.enter(partition, self) for partition in given}
        try:
            for shared in self._shared.values():
                await shared.started()
            await self._read_pages()
        except BaseException:
            self._leave()
            raise
        self._parts = {
            partition: part_of(partition, place or self._places[partition]) for partition, place in given.items()
        }

    def _leave(self) -> None:
        shared, self._shared = self._shared, {}
        for one in shared.values():
            self._store.fanout.leave(one, self)
        self._tails, self._targets = {}, {}
        self._pages.clear()

    def _given(self, told: Told) -> Arrival:
        self._parts[told.partition] = told.part
        return told, told.part if len(self._parts) == 1 else self.position

    async def _more(self) -> None:
        if self._ended_by is not None:
            raise self._ended_by
        if not self._shared:
            raise RuntimeError("A shared following begins with `async with` or `async for`.")
        if not self._tails:
            self._has_news.clear()
            await self._has_news.wait()
            return
        try:
            async with self._turn:
                if self._tails and not self._pages:
                    await self._read_pages()
        except EngineUnavailable as error:
            log.warning("The engine cannot be reached (%s); still trying.", error)
            await asyncio.sleep(pause_s_between(error, TROUBLE_PAUSE_S))

    # Catching up

    async def _read_pages(self) -> None:
        """One from each partition in which we are behind. A caller who is cancelled has changed nothing."""
        behind, has_joined = list(self._tails.values()), bool(self._targets)
        most = min(READ_AT_ONCE, PAGES_MAX // len(behind) + 1)
        pages = await self._store.run(_pages_flow(behind, most))
        for tail, page in zip(behind, pages, strict=True):
            self._take_in(tail, page)
        if not has_joined:
            self._join_if([len(page.entries) < most for page in pages])
        for tail, page in zip(behind, pages, strict=True):
            if self._has_arrived(tail, is_at_end=has_joined and not page.entries):
                del self._tails[tail.partition]

    def _take_in(self, tail: Tail, page: StreamPage) -> None:
        for happened in tail.registered(page):
            if is_wanted(happened.event, self.queue, self.job):
                self._pages.append(Told(happened))
        self._places[tail.partition] = _place(tail)

    def _join_if(self, is_at_end: Sequence[bool]) -> None:
        """Once little is left to read: from now on what the shared readers tell is kept for us, and what came before
        ends at their places, so that reading it by pages comes to an end however much happens meanwhile."""
        if all(here or self._is_near(tail) for here, tail in zip(is_at_end, self._tails.values(), strict=True)):
            for partition, shared in self._shared.items():
                shared.audience.add(self)
                self._targets[partition] = shared.place

    def _is_near(self, tail: Tail) -> bool:
        here, there = _place(tail), self._shared[tail.partition].place
        return here.epoch == there.epoch and there.ordinal - here.ordinal <= READ_AT_ONCE

    def _has_arrived(self, tail: Tail, is_at_end: bool) -> bool:
        target = self._targets.get(tail.partition)
        return target is not None and (is_at_end or _place(tail) >= target)


def _place(tail: Tail) -> EventPosition:
    return cast(EventPosition, tail.place)  # known from the first page on


def _pages_flow(behind: Sequence[Tail], most: int) -> Flow[list[StreamPage]]:
    return (yield [events.follow(tail.place, most, tail.partition) for tail in behind])  # type: ignore[no-any-return]
