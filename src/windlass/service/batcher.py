"""What comes one by one from many callers at once is asked together: what a call costs is shared before it is paid. For
servers; whoever has many jobs gives them to `enqueue` itself."""

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
IN_FLIGHT_MAX = 2  # one is worked on by the engine while the next is filled


class RequestBatcher:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._jobs: dict[Durability | None, _PendingBatch[NewJob | PreparedJob, Enqueued]] = {}
        self._numbered: _PendingBatch[NewJob | PreparedJob, Enqueued] | None = None

    def enqueue(self, job: NewJob | PreparedJob, durability: Durability | None = None) -> asyncio.Future[Enqueued]:
        """As `service.enqueue` of one job: a refusal is raised, and concerns nobody else."""
        line = self._jobs.get(durability)
        if line is None:
            line = self._jobs[durability] = _PendingBatch(
                lambda jobs: self._service.enqueue(jobs, durability=durability)
            )
        return line.join(job)

    def enqueue_numbered(self, job: NewJob | PreparedJob) -> asyncio.Future[Enqueued]:
        """As `service.enqueue_numbered` of one job."""
        if self._numbered is None:
            self._numbered = _PendingBatch(self._service.enqueue_numbered)
        return self._numbered.join(job)


class _PendingBatch(Generic[G, T]):
    """Those who ask for the same, each with something of its own."""

    __slots__ = ("_ask", "_in_flight", "_is_flush_due", "_loop", "_waiting")

    def __init__(self, ask: Callable[[list[G]], Awaitable[Sequence[T | Refusal]]]) -> None:
        self._ask = ask
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[G, asyncio.Future[T]]] = deque()
        self._in_flight: set[asyncio.Task[None]] = set()
        self._is_flush_due = False

    def join(self, given: G) -> asyncio.Future[T]:
        future: asyncio.Future[T] = self._loop.create_future()
        self._waiting.append((given, future))
        if not self._is_flush_due and len(self._in_flight) < IN_FLIGHT_MAX:
            # At the end of this turn, so that all callers of the turn are in.
            self._is_flush_due = True
            self._loop.call_soon(self._flush)
        return future

    def _flush(self) -> None:
        self._is_flush_due = False
        while self._waiting and len(self._in_flight) < IN_FLIGHT_MAX:
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), ITEMS_MAX))]
            task = self._loop.create_task(self._send(batch))
            self._in_flight.add(task)
            task.add_done_callback(self._sent)

    def _sent(self, task: asyncio.Task[None]) -> None:
        self._in_flight.discard(task)
        if self._waiting:
            self._flush()

    async def _send(self, batch: list[tuple[G, asyncio.Future[T]]]) -> None:
        try:
            answers = await self._ask([given for given, _ in batch])
        except Refusal as error:
            await self._send_apart(batch, error)
        except BaseException as error:
            for _, future in batch:
                _tell(future, error)
            if not isinstance(error, Exception):
                raise
        else:
            for (_, future), answer in zip(batch, answers, strict=True):
                if isinstance(answer, Refusal) or future.done():
                    _tell(future, answer)
                else:
                    future.set_result(answer)

    async def _send_apart(self, batch: list[tuple[G, asyncio.Future[T]]], error: Refusal) -> None:
        """One of them cannot be accepted as it is given, and nothing was: each finds out for itself."""
        if len(batch) == 1:
            _tell(batch[0][1], error)
        else:
            await asyncio.gather(*(self._send([one]) for one in batch))


def _tell(future: asyncio.Future[T], answer: T | BaseException) -> None:
    if future.done():  # its caller has gone
        return
    if isinstance(answer, BaseException):
        future.set_exception(answer)
    else:
        future.set_result(answer)
