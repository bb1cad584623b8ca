"""Batcher that joins the parts of concurrent callers into few calls, which multiplies the throughput.

The store joins commands of one kind; `service/batcher.py` joins single jobs. A request passes one batcher."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeAlias, TypeVar

from windlass.core.errors import Refusal
from windlass.store.commands.command import BYTES_MAX, ITEMS_MAX

P = TypeVar("P")
T = TypeVar("T")
Send: TypeAlias = Callable[[list[P]], Awaitable[Sequence[T | Refusal]]]
IN_FLIGHT_MAX = 2  # the engine runs one batch while the next fills


class Batcher(Generic[P, T]):
    """Batcher for parts of one kind. `send` returns one answer per part; a refusal is raised for its caller only."""

    __slots__ = ("_in_flight", "_is_flush_due", "_loop", "_send", "_waiting")

    def __init__(self, send: Send[P, T]) -> None:
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[P, int, int, asyncio.Future[T]]] = deque()
        self._in_flight: set[asyncio.Task[None]] = set()
        self._is_flush_due = False

    def submit(self, part: P, items: int, size: int) -> asyncio.Future[T]:
        """Queue a part of at most ITEMS_MAX items for the next batch. `size` is its number of bytes."""
        future: asyncio.Future[T] = self._loop.create_future()
        self._waiting.append((part, items, size, future))
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
            task = self._loop.create_task(self._send_batch(*self._next_batch()))
            self._in_flight.add(task)
            task.add_done_callback(self._batch_done)

    def _next_batch(self) -> tuple[list[P], list[asyncio.Future[T]]]:
        waiting = self._waiting
        parts: list[P] = []
        futures: list[asyncio.Future[T]] = []
        total_items = total_size = 0
        while waiting:
            part, items, size, future = waiting[0]
            total_items += items
            total_size += size
            if parts and (total_items > ITEMS_MAX or total_size > BYTES_MAX):
                break
            waiting.popleft()
            parts.append(part)
            futures.append(future)
        return parts, futures

    async def _send_batch(self, parts: list[P], futures: list[asyncio.Future[T]]) -> None:
        try:
            answers = await self._send(parts)
        except Refusal as error:
            if len(parts) == 1:
                _fail(futures, error)
            else:  # of the whole batch: sent one by one, only the invalid parts fail
                alone = [self._send_batch([part], [future]) for part, future in zip(parts, futures, strict=True)]
                await asyncio.gather(*alone)
        except BaseException as error:
            _fail(futures, error)
            if not isinstance(error, Exception):
                raise
        else:
            for future, answer in zip(futures, answers, strict=True):
                if future.done():  # its caller was cancelled
                    continue
                if isinstance(answer, Refusal):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)

    def _batch_done(self, task: asyncio.Task[None]) -> None:
        self._in_flight.discard(task)
        if self._waiting:
            self._flush()


def _fail(futures: Sequence[asyncio.Future[T]], error: BaseException) -> None:
    for future in futures:
        if not future.done():
            future.set_exception(error)
