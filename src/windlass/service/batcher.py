"""Batcher for servers: joins single enqueues of concurrent callers into one call of the service.

Callers that have many jobs pass them to `Service.enqueue` themselves."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from windlass.core.errors import Refusal
from windlass.core.job import Durability, NewJob
from windlass.core.job_template import PreparedJob
from windlass.core.operations import Enqueued
from windlass.store.commands.command import ITEMS_MAX

if TYPE_CHECKING:
    from . import Service

G = TypeVar("G")
T = TypeVar("T")
IN_FLIGHT_MAX = 2  # the engine works on one batch while the next fills


class RequestBatcher:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._jobs: dict[Durability | None, _PendingBatch[NewJob | PreparedJob, Enqueued]] = {}
        self._numbered: _PendingBatch[NewJob | PreparedJob, Enqueued] | None = None

    def enqueue(self, job: NewJob | PreparedJob, durability: Durability | None = None) -> asyncio.Future[Enqueued]:
        """Enqueue one job. A refusal is raised for this caller only."""
        batch = self._jobs.get(durability)
        if batch is None:
            batch = self._jobs[durability] = _PendingBatch(
                lambda jobs: self._service.enqueue(jobs, durability=durability)
            )
        return batch.join(job)

    def enqueue_numbered(self, job: NewJob | PreparedJob) -> asyncio.Future[Enqueued]:
        """Enqueue one job under a number."""
        if self._numbered is None:
            self._numbered = _PendingBatch(self._service.enqueue_numbered)
        return self._numbered.join(job)


class _PendingBatch(Generic[G, T]):
    """Jobs of concurrent callers with the same options, and their futures."""

    __slots__ = ("_enqueue", "_in_flight", "_is_flush_due", "_loop", "_waiting")

    def __init__(self, enqueue: Callable[[list[G]], Awaitable[Sequence[T | Refusal]]]) -> None:
        self._enqueue = enqueue
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[G, asyncio.Future[T]]] = deque()
        self._in_flight: set[asyncio.Task[None]] = set()
        self._is_flush_due = False

    def join(self, given: G) -> asyncio.Future[T]:
        future: asyncio.Future[T] = self._loop.create_future()
        self._waiting.append((given, future))
        if not self._is_flush_due and len(self._in_flight) < IN_FLIGHT_MAX:
            # At the end of this turn of the event loop, so that the batch has all callers of the turn.
            self._is_flush_due = True
            self._loop.call_soon(self._flush)
        return future

    def _flush(self) -> None:
        self._is_flush_due = False
        while self._waiting and len(self._in_flight) < IN_FLIGHT_MAX:
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), ITEMS_MAX))]
            task = self._loop.create_task(self._send(batch))
            self._in_flight.add(task)
            task.add_done_callback(self._on_sent)

    def _on_sent(self, task: asyncio.Task[None]) -> None:
        self._in_flight.discard(task)
        if self._waiting:
            self._flush()

    async def _send(self, batch: list[tuple[G, asyncio.Future[T]]]) -> None:
        try:
            answers = await self._enqueue([given for given, _ in batch])
        except Refusal as error:
            await self._send_separately(batch, error)
        except BaseException as error:
            for _, future in batch:
                _resolve(future, error)
            if not isinstance(error, Exception):
                raise
        else:
            for (_, future), answer in zip(batch, answers, strict=True):
                if isinstance(answer, Refusal) or future.done():
                    _resolve(future, answer)
                else:
                    future.set_result(answer)

    async def _send_separately(self, batch: list[tuple[G, asyncio.Future[T]]], error: Refusal) -> None:
        """Send each job alone after a batch was refused as a whole: only the invalid jobs fail."""
        if len(batch) == 1:
            _resolve(batch[0][1], error)
        else:
            await asyncio.gather(*(self._send([item]) for item in batch))


def _resolve(future: asyncio.Future[T], answer: T | BaseException) -> None:
    if future.done():  # its caller was cancelled
        return
    if isinstance(answer, BaseException):
        future.set_exception(answer)
    else:
        future.set_result(answer)
