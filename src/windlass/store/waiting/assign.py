"""Assignment of jobs to idle workers: at once, or after a wait without polling."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from windlass.core.errors import Refusal
from windlass.core.operations import Dispatch
from windlass.store.commands.assign import assign
from windlass.store.commands.command import Flow
from windlass.store.commands.push import DispatchResult
from windlass.store.commands.take import UNREGISTERED, WaitRegistration
from windlass.store.store import Store

from .loop import Look, PartitionWait, Wait, wait_async
from .take import PartitionQueues, take_once


class AssignOptions(NamedTuple):
    most: int
    accept_ms: int
    spends_attempt: bool


def assign_flow(
    queues: tuple[str, ...], options: AssignOptions, partition: int, registration: WaitRegistration = UNREGISTERED
) -> Flow[DispatchResult]:
    found = yield assign(queues, *options, partition, registration)
    if isinstance(found, Refusal):
        raise found
    return found  # type: ignore[no-any-return]


def assign_for_others_flow(
    store: Store, part: PartitionQueues, options: AssignOptions, wakeup_ms: int
) -> Flow[DispatchResult]:
    """Assign jobs once. With `wakeup_ms`, a job that comes or is due later wakes the waiting calls of this process."""
    queues = tuple(part.queues)
    if not wakeup_ms:
        return (yield from assign_flow(queues, options, part.partition))
    wakeups = store.wakeups.of(part.partition)
    found = yield from assign_flow(queues, options, part.partition, WaitRegistration(wakeups.name, wakeup_ms))
    if found.due_in_s is not None:
        wakeups.wake_when_due([(queue, "") for queue in queues], found.due_in_s)
    return found


class _AssignWait(Wait[Dispatch]):
    """Wait for a job in a queue with idle workers. The engine registers at each such queue, also if it found jobs."""

    def __init__(self, queues: tuple[str, ...], options: AssignOptions, partition: int, until: asyncio.Event) -> None:
        super().__init__()
        self.until = until
        self._queues = queues
        self._options = options
        self._part = PartitionWait(partition, tuple((queue, "") for queue in queues), self.event)
        self.parts = (self._part,)

    def look(self, left_s: float) -> Flow[DispatchResult]:
        return assign_flow(self._queues, self._options, self._part.partition, self._part.registration(left_s))

    def read(self, found: DispatchResult) -> Look[Dispatch]:
        return Look(found.dispatch, found.taken.jobs, found.due_in_s)


async def assign_waiting(
    store: Store, queues: tuple[str, ...], options: AssignOptions, wait_ms: int, partition: int, until: asyncio.Event
) -> Dispatch:
    """Assign jobs as soon as there are any; wait up to `wait_ms`. The engine sends a wakeup when a job becomes takeable
    in one of the queues and a worker is idle there.

    `until` ends the wait, but never cancels a command in flight: workers that it gave jobs would no longer be idle, and
    would not have their jobs either.
    """
    wait = _AssignWait(queues, options, partition, until)
    return await wait_async(store, wait, wait_ms, lambda flow: take_once(store, flow))
