"""Waiting without polling for callbacks to deliver, and pages of pending callbacks."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TypeAlias

from windlass.core.callbacks.callback import DeliveryCapacity, PendingCallback, PendingCallbackPage, PendingCallbacks
from windlass.core.errors import BadInput
from windlass.store.commands import callbacks
from windlass.store.commands.command import Flow
from windlass.store.store import Store

from .wakeups import BLOCK_S, Listener, Place, Wakeups

PENDING: Place = ("\2owed", "")  # as in lua/lib/pending_callbacks.lua
PartitionSource: TypeAlias = Callable[[], Sequence[int]]  # the partitions are known once the store is open
GRACE_MS = 5_000  # a registration outlives the wait by this


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
    registrations: Sequence[callbacks.CallbackRegistration] = (),
) -> Flow[callbacks.TakenCallbacks]:
    """Poll these partitions once. `now_ms` is of the last partition polled, `next_at_ms` the earliest of all."""
    taken: list[PendingCallback] = []
    now_ms, next_at_ms = 0, []
    for index, partition in enumerate(partitions):
        if len(taken) == capacity.most:
            break
        registration = registrations[index] if registrations else callbacks.CallbackRegistration()
        left = _remaining(capacity, taken) if taken else capacity
        found = yield callbacks.take_callbacks(left, lease_ms, registration, partition)
        now_ms = found.now_ms
        taken += found.callbacks
        next_at_ms += [found.next_at_ms] if found.next_at_ms is not None else []
    return callbacks.TakenCallbacks(now_ms, min(next_at_ms, default=None), taken)


async def take_waiting(
    store: Store, partition_source: PartitionSource, capacity: CapacitySource, lease_ms: int, wait_ms: int
) -> PendingCallbacks:
    await store.open()
    partitions = partition_source()
    give_up_at_s = time.monotonic() + wait_ms / 1000
    still_registered: set[Place] = set()  # by an earlier poll; a wakeup ends a registration
    while True:
        async with _listen(store, partitions) as listeners:
            capacity.set_event(listeners[0][1].event)  # before the capacity is read, so that no change is missed
            registered, polls_again = {PENDING}, False
            try:
                left_s = max(0.0, give_up_at_s - time.monotonic())
                found = await store.run(_registering_flow(partitions, capacity.current(), lease_ms, listeners, left_s))
                left_s = give_up_at_s - time.monotonic()
                if found.callbacks or not wait_ms:
                    registered = still_registered
                if found.callbacks or left_s <= 0 or capacity.is_closed:
                    return _pending_callbacks(found)
                await _wait_for_wakeup(listeners, min(left_s, BLOCK_S, _until_due_s(found)))
                still_registered = {PENDING} if any(item.woken_place is None for _, item in listeners) else set()
                polls_again = True
            finally:
                for wakeups, listener in listeners if not polls_again else ():
                    wakeups.leave(listener, registered)


@contextlib.asynccontextmanager
async def _listen(store: Store, partitions: Sequence[int]) -> AsyncIterator[list[tuple[Wakeups, Listener]]]:
    """Listen in each partition. The listeners share one event."""
    event = asyncio.Event()
    async with contextlib.AsyncExitStack() as stack:
        found = []
        for partition in partitions:
            listener = Listener((PENDING,))
            listener.event = event
            found.append((await stack.enter_async_context(store.wakeups.listen(partition, listener)), listener))
        yield found


def _registering_flow(
    partitions: Sequence[int],
    capacity: DeliveryCapacity,
    lease_ms: int,
    listeners: list[tuple[Wakeups, Listener]],
    left_s: float,
) -> Flow[callbacks.TakenCallbacks]:
    for_ms = int(min(left_s, BLOCK_S) * 1000) + GRACE_MS
    registrations = (
        [
            callbacks.CallbackRegistration(wakeups.name, for_ms, wakeups.others_wait(listener))
            for wakeups, listener in listeners
        ]
        if left_s
        else ()
    )
    return take_flow(partitions, capacity, lease_ms, registrations)


def _until_due_s(found: callbacks.TakenCallbacks) -> float:
    return BLOCK_S if found.next_at_ms is None else max(0.001, (found.next_at_ms - found.now_ms) / 1000)


async def _wait_for_wakeup(listeners: list[tuple[Wakeups, Listener]], within_s: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            await listeners[0][1].event.wait()


def take_sync(
    store: Store, partition_source: PartitionSource, capacity: DeliveryCapacity, lease_ms: int, wait_ms: int
) -> PendingCallbacks:
    if wait_ms:
        raise BadInput("Waiting for callbacks needs an event loop: await this operation, or use wait_ms=0.")
    store.open_sync()
    return _pending_callbacks(store.run_sync(take_flow(partition_source(), capacity, lease_ms)))


def _pending_callbacks(found: callbacks.TakenCallbacks) -> PendingCallbacks:
    return PendingCallbacks(found.callbacks, found.next_at_ms)


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
