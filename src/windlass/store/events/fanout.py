"""Shared readers of events: one per process and partition, for all followers of an event loop. A reader starts with the
first follower and ends some time after the last. The followers are in shared_follow.py."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from windlass.core.errors import EngineUnavailable
from windlass.store.commands.events import EventPosition
from windlass.store.connection.connection import ConnectionLost

from .buffer import SharedEvent
from .stream_position import StreamPosition
from .stream_reader import ReadResult, StreamReader
from .subscriptions import Follower, SubscriptionKey, Subscriptions

if TYPE_CHECKING:
    from windlass.store.store import Store

LINGER_S = 5.0  # a browser that reconnects finds its reader still there


class Fanout:
    """Shared readers of one store. They run in the event loop that uses the store."""

    def __init__(self, store: Store) -> None:
        self.linger_s = LINGER_S
        self._store = store
        self._shared: dict[int, SharedReader] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def enter(self, partition: int, follower: Follower) -> SharedReader:
        """Return the reader of the partition. It runs at least until the follower leaves it."""
        shared = self._shared.get(partition)
        if shared is None:
            shared = self._shared[partition] = SharedReader(self._store, partition, self._retire)
        shared.enter(follower)
        return shared

    def leave(self, shared: SharedReader, follower: Follower) -> None:
        if shared.leave(follower) and self._shared.get(shared.partition) is shared:
            shared.linger(self.linger_s)

    async def close(self) -> None:
        """Close all readers. Remaining followers get an error."""
        for shared in list(self._shared.values()):
            shared.end(
                EngineUnavailable("The store was closed while events were followed. Continue from the last position.")
            )
        if self._closing:
            await asyncio.wait(self._closing)

    def _retire(self, shared: SharedReader) -> None:
        """Remove the reader, so that the next follower starts a new reader."""
        del self._shared[shared.partition]
        task = asyncio.get_running_loop().create_task(shared.close(), name="windlass-fanout-close")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


class SharedReader:
    """Reads the events of a partition from the first follower on, and delivers each to the followers that want it."""

    def __init__(self, store: Store, partition: int, retire: Callable[[SharedReader], None]) -> None:
        self.partition = partition
        self.subscriptions = Subscriptions()
        self._retire = retire
        self._followers: set[Follower] = set()  # including those that have not subscribed yet
        self.next_position = EventPosition(0, 0)  # a new subscriber gets events from here on; known after the start
        self._reader = StreamReader(store, StreamPosition(partition, None), store.run, self._deliver)
        self._ended_by: Exception | None = None
        self._lingering: asyncio.TimerHandle | None = None
        self._starting = asyncio.get_running_loop().create_task(self._start(), name="windlass-fanout-start")

    def enter(self, follower: Follower) -> None:
        self._followers.add(follower)
        if self._lingering is not None:
            self._lingering.cancel()
            self._lingering = None

    def leave(self, follower: Follower) -> bool:
        """Remove the follower, and return whether it was the last."""
        is_here = follower in self._followers
        self._followers.discard(follower)
        self.subscriptions.remove(follower)
        return is_here and not self._followers

    async def started(self) -> None:
        """Wait for the start. A cancelled caller does not cancel the start, which others wait for."""
        await asyncio.wait({self._starting})
        if self._ended_by is not None:
            raise self._ended_by

    def linger(self, seconds: float) -> None:
        self._lingering = asyncio.get_running_loop().call_later(
            seconds, self.end, ConnectionLost("The last follower has left.")
        )

    def end(self, error: Exception) -> None:
        """End the reader. Remaining followers get the error."""
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
            self.next_position = self._reader.start_position
            self._reader.start_reading()

    async def _deliver(self, read: ReadResult) -> None:
        if isinstance(read, Exception):
            self.end(read)
            return
        wanted: dict[SubscriptionKey, list[SharedEvent]] = {}
        for stream_event in read:
            if keys := self.subscriptions.keys_for(stream_event.event):
                shared_event = SharedEvent(stream_event, is_rewound=stream_event.next_position < self.next_position)
                for key in keys:
                    wanted.setdefault(key, []).append(shared_event)
            self.next_position = stream_event.next_position
        self.subscriptions.deliver(wanted)
