"""Batcher that joins concurrent commands of one kind into one script call, which multiplies the throughput."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from windlass.store.commands.command import BYTES_MAX, ITEMS_MAX, Argument, size_of

IN_FLIGHT_MAX = 2  # the engine runs one while the next fills

Send = Callable[[list[Argument]], Awaitable[list[Any]]]


class _Part:
    """Items of one caller, and the future for their replies."""

    __slots__ = ("bytes", "future", "items")

    def __init__(self, items: Sequence[tuple[Argument, ...]], size: int, future: asyncio.Future[list[Any]]) -> None:
        self.items = items
        self.future = future
        self.bytes = size


class Batcher:
    """Batcher for one kind of command (script, head, durability). A caller submits at most ITEMS_MAX items at once."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[_Part] = deque()
        self._in_flight: set[asyncio.Task[None]] = set()
        self._is_flush_due = False

    def submit(self, items: Sequence[tuple[Argument, ...]], size: int = -1) -> asyncio.Future[list[Any]]:
        """Queue items for the next batch. `size` is their total in bytes, if known."""
        future: asyncio.Future[list[Any]] = self._loop.create_future()
        self._waiting.append(_Part(items, sum(map(size_of, items)) if size < 0 else size, future))
        if not self._is_flush_due and len(self._in_flight) < IN_FLIGHT_MAX:
            # At the end of this loop iteration, so that all its callers are in the batch.
            self._is_flush_due = True
            self._loop.call_soon(self._flush)
        return future

    @property
    def is_idle(self) -> bool:
        return not self._waiting and not self._in_flight

    def _flush(self) -> None:
        self._is_flush_due = False
        while self._waiting and len(self._in_flight) < IN_FLIGHT_MAX:
            task = self._loop.create_task(self._send_batch(self._next_batch()))
            self._in_flight.add(task)
            task.add_done_callback(self._batch_done)

    def _next_batch(self) -> list[_Part]:
        batch = [self._waiting.popleft()]
        count, size = len(batch[0].items), batch[0].bytes
        while self._waiting:
            part = self._waiting[0]
            if count + len(part.items) > ITEMS_MAX or size + part.bytes > BYTES_MAX:
                break
            batch.append(self._waiting.popleft())
            count += len(part.items)
            size += part.bytes
        return batch

    async def _send_batch(self, batch: list[_Part]) -> None:
        try:
            replies = await self._send([argument for part in batch for item in part.items for argument in item])
        except BaseException as error:
            for part in batch:
                if not part.future.done():
                    part.future.set_exception(error)
            if not isinstance(error, Exception):
                raise
            return
        at = 0
        for part in batch:
            end = at + len(part.items)
            if not part.future.done():
                part.future.set_result(replies[at:end])
            at = end

    def _batch_done(self, task: asyncio.Task[None]) -> None:
        self._in_flight.discard(task)
        if self._waiting:
            self._flush()
