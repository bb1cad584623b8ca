"""Jobs that come one by one from many callers at once are accepted together: what a call costs is shared before it is
paid. For servers; whoever has many jobs gives them to `enqueue` itself."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TypeAlias

from ..core.errors import Refusal
from ..core.job import Durability, NewJob
from ..core.requests import Enqueued
from ..store.calls.call import ITEMS_MAX
from .producing import Producing

IN_FLIGHT_MAX = 2  # one is worked on by the engine while the next is filled
Waiting: TypeAlias = tuple[NewJob, "asyncio.Future[Enqueued]"]


class Gathering:
    def __init__(self, service: Producing) -> None:
        self._service = service
        self._waiting: dict[Durability | None, deque[Waiting]] = {}
        self._in_flight: set[asyncio.Task[None]] = set()
        self._is_flush_due = False

    def enqueue(self, job: NewJob, durability: Durability | None = None) -> asyncio.Future[Enqueued]:
        """As `service.enqueue` of one job: a refusal is raised, and concerns nobody else."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Enqueued] = loop.create_future()
        self._waiting.setdefault(durability, deque()).append((job, future))
        if not self._is_flush_due and len(self._in_flight) < IN_FLIGHT_MAX:
            # At the end of this turn, so that all callers of the turn are in.
            self._is_flush_due = True
            loop.call_soon(self._flush)
        return future

    def _flush(self) -> None:
        self._is_flush_due = False
        while self._waiting and len(self._in_flight) < IN_FLIGHT_MAX:
            durability, waiting = next(iter(self._waiting.items()))
            batch = [waiting.popleft() for _ in range(min(len(waiting), ITEMS_MAX))]
            if not waiting:
                del self._waiting[durability]
            task = asyncio.get_running_loop().create_task(self._send(batch, durability))
            self._in_flight.add(task)
            task.add_done_callback(self._sent)

    def _sent(self, task: asyncio.Task[None]) -> None:
        self._in_flight.discard(task)
        if self._waiting:
            self._flush()

    async def _send(self, batch: list[Waiting], durability: Durability | None) -> None:
        try:
            answers = await self._service.enqueue([job for job, _ in batch], durability=durability)
        except Refusal as error:
            await self._send_apart(batch, durability, error)
        except BaseException as error:
            for _, future in batch:
                _tell(future, error)
            if not isinstance(error, Exception):
                raise
        else:
            for (_, future), answer in zip(batch, answers, strict=True):
                _tell(future, answer)

    async def _send_apart(self, batch: list[Waiting], durability: Durability | None, error: Refusal) -> None:
        """One of them cannot be accepted as it is given, and nothing was: each finds out for itself."""
        if len(batch) == 1:
            _tell(batch[0][1], error)
        else:
            await asyncio.gather(*(self._send([one], durability) for one in batch))


def _tell(future: asyncio.Future[Enqueued], answer: Enqueued | BaseException) -> None:
    if future.done():  # its caller has gone
        return
    if isinstance(answer, BaseException):
        future.set_exception(answer)
    else:
        future.set_result(answer)
