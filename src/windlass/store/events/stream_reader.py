"""Reads one partition's stream of events on a link of its own, for whoever it hands them to."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeAlias

from windlass.core.errors import EngineNotPermitted, EngineUnavailable
from windlass.store.commands import events
from windlass.store.commands.command import Flow
from windlass.store.connection.reconnect import ReconnectingConnection
from windlass.store.connection.retry_policy import pause_s_between

from .stream_position import Happened, Tail

if TYPE_CHECKING:
    from windlass.store.store import Store

log = logging.getLogger("windlass.store")

RENEW_S = 20.0  # a third of the time for which the engine records without hearing from us
WATCHDOG_S = 5.0
TROUBLE_PAUSE_S = 0.2
READ_AT_ONCE = 500
Read: TypeAlias = list[Happened] | Exception  # what happened, or why nothing more will come


class Reader:
    """Reads one partition's stream on a link of its own, which renews itself; says again and again that it follows."""

    def __init__(
        self,
        store: Store,
        tail: Tail,
        run: Callable[[Flow[Any]], Coroutine[Any, Any, Any]],
        give: Callable[[Read], Coroutine[Any, Any, None]],
    ) -> None:
        self.tail = tail
        self._run = run
        self._give = give
        self._key = f"{store.root(tail.partition)}:events"
        self._link: ReconnectingConnection = store.new_connection(tail.partition, self._connecting)
        self._connections = 0
        self._tasks: set[asyncio.Task[Any]] = set()

    async def register(self) -> list[Happened]:
        given = self.tail.place
        followed = await self._run(self._follow())
        self.start: events.EventPosition = given or followed.next_position
        return self.tail.registered(followed)

    def _follow(self) -> Flow[events.StreamPage]:
        return (yield events.follow(self.tail.place, READ_AT_ONCE, self.tail.partition))  # type: ignore[no-any-return]

    def begin(self) -> None:
        self._reading = self._spawn(self._read_until_closed())

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._link.close()
        await self._link.wait_closed()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name="windlass-follow")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

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
                self._begin_again_if_behind(place)
        except (EngineUnavailable, EngineNotPermitted) as error:
            log.info("Could not say that somebody follows (%s); the next renewal does.", error)
        except Exception as error:
            await self._give(error)

    def _begin_again_if_behind(self, place: events.EventPosition | None) -> None:
        """An engine that has lost its last events gives their numbers again: a read that waits for higher ones would
        not see them. It is given up with its connection, which it blocks."""
        if place is not None and self.tail.place is not None and self.tail.place < place:
            self._reading.cancel()
            self._link.reconnect()
            self.begin()

    async def _read_until_closed(self) -> None:
        try:
            while True:
                try:
                    await self._read_until_renewal()
                    await self._hand_over(self.tail.registered(await self._run(self._follow())))
                except (EngineUnavailable, EngineNotPermitted) as error:
                    log.warning("Events cannot be read (%s); still trying.", error)
                    await asyncio.sleep(pause_s_between(error, TROUBLE_PAUSE_S))
        except Exception as error:
            await self._give(error)

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
            await self._give(batch)
