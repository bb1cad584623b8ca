"""One reader per process and partition for all who follow events here: it begins with the first of them and ends some
time after the last. What each of them sees is in shared_following.py."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from windlass.core.errors import EngineUnavailable
from windlass.store.commands.events import EventPosition
from windlass.store.connection.connection import ConnectionLost

from .buffer import Told
from .stream_position import Tail
from .stream_reader import Read, Reader
from .subscriptions import Audience, Follower, Wish

if TYPE_CHECKING:
    from windlass.store.store import Store

LINGER_S = 5.0  # a browser that reconnects finds its reader still there


class Fanout:
    """The shared readers of one store. They live in the event loop in which the store is used."""

    def __init__(self, store: Store) -> None:
        self.linger_s = LINGER_S
        self._store = store
        self._shared: dict[int, SharedReader] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def enter(self, partition: int, follower: Follower) -> SharedReader:
        """The partition's reader, which stays at least until the follower leaves it."""
        shared = self._shared.get(partition)
        if shared is None:
            shared = self._shared[partition] = SharedReader(self._store, partition, self._retire)
        shared.enter(follower)
        return shared

    def leave(self, shared: SharedReader, follower: Follower) -> None:
        if shared.leave(follower) and self._shared.get(shared.partition) is shared:
            shared.linger(self.linger_s)

    async def close(self) -> None:
        """Whoever still follows is told so."""
        for shared in list(self._shared.values()):
            shared.end(
                EngineUnavailable("The store was closed, which ends this following. Go on from its position elsewhere.")
            )
        if self._closing:
            await asyncio.wait(self._closing)

    def _retire(self, shared: SharedReader) -> None:
        """The next follower begins with a new one."""
        del self._shared[shared.partition]
        task = asyncio.get_running_loop().create_task(shared.close(), name="windlass-fanout-close")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


class SharedReader:
    """Reads a partition's events from the moment it was first wanted, and tells each to those who want it."""

    def __init__(self, store: Store, partition: int, retire: Callable[[SharedReader], None]) -> None:
        self.partition = partition
        self.audience = Audience()
        self._retire = retire
        self._followers: set[Follower] = set()  # also those who are not in the audience yet
        self.place = EventPosition(
            0, 0
        )  # who joins the audience hears what comes from here on; known when it has started
        self._reader = Reader(store, Tail(partition, None), store.run, self._give)
        self._ended_by: Exception | None = None
        self._lingering: asyncio.TimerHandle | None = None
        self._starting = asyncio.get_running_loop().create_task(self._start(), name="windlass-fanout-start")

    def enter(self, follower: Follower) -> None:
        self._followers.add(follower)
        if self._lingering is not None:
            self._lingering.cancel()
            self._lingering = None

    def leave(self, follower: Follower) -> bool:
        """Is it the last one who leaves?"""
        is_here = follower in self._followers
        self._followers.discard(follower)
        self.audience.remove(follower)
        return is_here and not self._followers

    async def started(self) -> None:
        """A caller who is cancelled does not end what others wait for."""
        await asyncio.wait({self._starting})
        if self._ended_by is not None:
            raise self._ended_by

    def linger(self, seconds: float) -> None:
        self._lingering = asyncio.get_running_loop().call_later(seconds, self.end, ConnectionLost("Nobody followed."))

    def end(self, error: Exception) -> None:
        """Those who are still here are told why."""
        if self._ended_by is None:
            self._ended_by = error
            for follower in self._followers:
                follower.end(error)
            self._retire(self)

    async def close(self) -> None:
        if self._lingering is not None:
            self._lingering.cancel()
        self._starting.cancel()
        await asyncio.wait({self._starting})
        await self._reader.close()

    async def _start(self) -> None:
        try:
            await self._reader.register()
        except Exception as error:
            self.end(error)
        else:
            self.place = self._reader.start
            self._reader.begin()

    async def _give(self, read: Read) -> None:
        if isinstance(read, Exception):
            self.end(read)
            return
        wanted: dict[Wish, list[Told]] = {}
        for happened in read:
            if wishes := self.audience.wishes_for(happened.event):
                told = Told(happened, goes_back=happened.place < self.place)
                for wish in wishes:
                    wanted.setdefault(wish, []).append(told)
            self.place = happened.place
        self.audience.tell(wanted)
