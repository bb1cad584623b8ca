"""Reader of the event stream of one partition, on a connection of its own."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeAlias

from windlass.core.errors import EngineNotPermitted, EngineUnavailable
from windlass.retry_loop import RetryLoop
from windlass.store import keys
from windlass.store.commands import events
from windlass.store.commands.command import Flow
from windlass.store.connection.reconnect import ReconnectingConnection

from .stream_position import StreamEvent, StreamPosition

if TYPE_CHECKING:
    from windlass.store.store import Store

log = logging.getLogger("windlass.store")

RENEW_S = 20.0  # a third of the time for which the engine records events after a registration
WATCHDOG_S = 5.0
READ_AT_ONCE = 500
READ_RETRIES = RetryLoop(log, "Could not read events", (EngineUnavailable, EngineNotPermitted))
ReadResult: TypeAlias = list[StreamEvent] | Exception  # events, or the error that ended the reader


class StreamReader:
    """Reads the stream of one partition on a reconnecting connection, and renews its registration as a follower."""

    def __init__(
        self,
        store: Store,
        stream: StreamPosition,
        run: Callable[[Flow[Any]], Coroutine[Any, Any, Any]],
        deliver: Callable[[ReadResult], Coroutine[Any, Any, None]],
    ) -> None:
        self.stream = stream
        self._run = run
        self._deliver = deliver
        self._key = keys.events(store.root(stream.partition))
        self._connection: ReconnectingConnection = store.new_connection(stream.partition, self._on_connect)
        self._connects = 0
        self._tasks: set[asyncio.Task[Any]] = set()

    async def register(self) -> list[StreamEvent]:
        given = self.stream.next_position
        page = await self._run(self._follow())
        self.start_position: events.EventPosition = given or page.next_position
        return self.stream.process_page(page)

    def _follow(self) -> Flow[events.StreamPage]:
        return (yield events.follow(self.stream.next_position, READ_AT_ONCE, self.stream.partition))  # type: ignore[no-any-return]

    def start_reading(self) -> None:
        self._reading = self._spawn(self._read_until_closed())

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._connection.close()
        await self._connection.wait_closed()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name="windlass-follow")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _on_connect(self) -> None:
        """Register again after a reconnect: the engine may have lost the registration. The read is repeated at the same
        time."""
        self._connects += 1
        if self._connects > 1:
            self._spawn(self._register_again())

    async def _register_again(self) -> None:
        next_position = self.stream.next_position
        try:
            page = await self._run(self._follow())
            # The read in flight returns the entries, if there are any. Without entries, only this page shows whether
            # the stream continues from here.
            if not page.entries and self.stream.next_position == next_position:
                await self._deliver_events(self.stream.process_page(page))
                self._restart_if_behind(next_position)
        except (EngineUnavailable, EngineNotPermitted) as error:
            log.info("Could not register as a follower of events: %s. The next renewal will.", error)
        except Exception as error:
            await self._deliver(error)

    def _restart_if_behind(self, next_position: events.EventPosition | None) -> None:
        """Restart the read if the engine lost its last events. It gives their ids to new events, and the read in flight
        waits for higher ids. The read blocks its connection, so both are given up."""
        now = self.stream.next_position
        if next_position is not None and now is not None and now < next_position:
            self._reading.cancel()
            self._connection.reconnect()
            self.start_reading()

    async def _read_until_closed(self) -> None:
        try:
            await READ_RETRIES.forever(self._read_and_renew)
        except Exception as error:
            await self._deliver(error)

    async def _read_and_renew(self) -> None:
        await self._read_until_renewal()
        await self._deliver_events(self.stream.process_page(await self._run(self._follow())))

    async def _read_until_renewal(self) -> None:
        renew_at_s = time.monotonic() + RENEW_S
        while (left_s := renew_at_s - time.monotonic()) > 0:
            how = ("COUNT", READ_AT_ONCE, "BLOCK", max(1, int(left_s * 1000)))
            reply = await self._connection.call(
                "XREAD", *how, "STREAMS", self._key, self.stream.after_id, timeout_s=left_s + WATCHDOG_S
            )
            if reply:
                await self._deliver_events(self.stream.process_entries(reply[0][1]))

    async def _deliver_events(self, batch: list[StreamEvent]) -> None:
        if batch:
            await self._deliver(batch)
