"""Waiting without polling for callbacks to deliver, and pages of pending callbacks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import TypeAlias

from windlass.core.callbacks.callback import DeliveryCapacity, PendingCallback, PendingCallbackPage, PendingCallbacks
from windlass.core.errors import BadInput
from windlass.store.commands import callbacks
from windlass.store.commands.command import Flow
from windlass.store.commands.take import UNREGISTERED, WaitRegistration
from windlass.store.store import Store

from .loop import Look, PartitionWait, Wait, earliest, wait_async
from .wakeups import Place

PENDING: Place = ("\2owed", "")  # as in lua/lib/pending_callbacks.lua
PartitionSource: TypeAlias = Callable[[], Sequence[int]]  # the partitions are known once the store is open


class CapacitySource:
    """Delivery capacity of a deliverer. A wait reads it at each poll, so changes during the wait count."""

    def __init__(self, current: Callable[[], DeliveryCapacity]) -> None:
        self.current = current
        self.is_closed = False
        self._event: asyncio.Event | None = None

    def notify(self) -> None:
        """Poll again: there is more capacity than at the last poll."""
        if self._event is not None:
            self._event.set()

    def close(self) -> None:
        """End the wait with the callbacks that are there. Cancelling it could lose callbacks that were just leased."""
        self.is_closed = True
        self.notify()

    def set_event(self, event: asyncio.Event) -> None:
        self._event = event


def _remaining(capacity: DeliveryCapacity, taken: Sequence[PendingCallback]) -> DeliveryCapacity:
    left = dict(capacity.by_destination)
    for callback in taken:
        left[callback.destination] = max(0, left.get(callback.destination, capacity.per_destination) - 1)
    most = capacity.most - len(taken)
    return DeliveryCapacity(most=most, per_destination=capacity.per_destination, by_destination=left)


def take_flow(
    partitions: Sequence[int],
    capacity: DeliveryCapacity,
    lease_ms: int,
    registrations: Sequence[WaitRegistration] = (),
) -> Flow[list[callbacks.TakenCallbacks]]:
    """Poll these partitions once, in order, until the capacity is used. Return one result per partition polled."""
    taken: list[PendingCallback] = []
    partials: list[callbacks.TakenCallbacks] = []
    for index, partition in enumerate(partitions):
        if len(taken) == capacity.most:
            break
        registration = registrations[index] if registrations else UNREGISTERED
        left = _remaining(capacity, taken) if taken else capacity
        partial = yield callbacks.take_callbacks(left, lease_ms, registration, partition)
        partials.append(partial)
        taken += partial.callbacks
    return partials


class _CallbackWait(Wait[PendingCallbacks]):
    """Wait for due callbacks in several partitions."""

    def __init__(self, partitions: Sequence[int], capacity: CapacitySource, lease_ms: int) -> None:
        super().__init__()
        self._partitions = partitions
        self._capacity = capacity
        self._lease_ms = lease_ms
        self.parts = [PartitionWait(partition, (PENDING,), self.event) for partition in partitions]
        capacity.set_event(self.event)  # before the capacity is read, so that no change is missed

    @property
    def is_over(self) -> bool:
        return self._capacity.is_closed

    def look(self, left_s: float) -> Flow[list[callbacks.TakenCallbacks]]:
        registrations = [part.registration(left_s) for part in self.parts]
        return take_flow(self._partitions, self._capacity.current(), self._lease_ms, registrations)

    def read(self, partials: list[callbacks.TakenCallbacks]) -> Look[PendingCallbacks]:
        for part, partial in zip_longest(self.parts, partials):
            if partial is None:
                part.note_skipped()
            elif partial.callbacks:
                part.note_found()
        found = _combine(partials)
        return Look(found, found.callbacks, earliest(partial.due_in_s for partial in partials))


async def take_waiting(
    store: Store, partition_source: PartitionSource, capacity: CapacitySource, lease_ms: int, wait_ms: int
) -> PendingCallbacks:
    await store.open()
    partitions = partition_source()
    if not wait_ms:
        return _combine(await store.run(take_flow(partitions, capacity.current(), lease_ms)))
    return await wait_async(store, _CallbackWait(partitions, capacity, lease_ms), wait_ms)


def take_sync(
    store: Store, partition_source: PartitionSource, capacity: DeliveryCapacity, lease_ms: int, wait_ms: int
) -> PendingCallbacks:
    if wait_ms:
        raise BadInput("Waiting for callbacks needs an event loop: await this operation, or use wait_ms=0.")
    store.open_sync()
    return _combine(store.run_sync(take_flow(partition_source(), capacity, lease_ms)))


def _combine(partials: Sequence[callbacks.TakenCallbacks]) -> PendingCallbacks:
    found = [callback for partial in partials for callback in partial.callbacks]
    return PendingCallbacks(found, earliest(partial.next_at_ms for partial in partials))


def page_flow(partitions: int, given_up: bool, most: int, cursor: str) -> Flow[PendingCallbackPage]:
    """Return one page of callbacks. The cursor is a partition and a number of its callbacks to skip."""
    partition, start = _read_cursor(cursor)
    found: list[PendingCallback] = []
    while partition < partitions and len(found) < most:
        wanted = most - len(found)
        part = yield callbacks.callbacks(given_up, start, wanted, partition)
        found += part
        partition, start = (partition, start + len(part)) if len(part) == wanted else (partition + 1, 0)
    return PendingCallbackPage(found, f"{partition}.{start}" if partition < partitions else "")


def _read_cursor(cursor: str) -> tuple[int, int]:
    partition, _, start = (cursor or "0.0").partition(".")
    if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in (partition, start)):
        raise BadInput("The cursor does not come from a page of callbacks; start again without it.")
    return int(partition), int(start)
