"""Waiting for callbacks to deliver, without polling; and pages of them."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence

from ..core.callback import Debt, DebtPage, Debts
from ..core.errors import BadInput
from .bell import BLOCK_S, Bell, Listener, Place
from .calls import callbacks
from .calls.call import Flow
from .store import Store

OWED: Place = ("\2owed", "")  # as in lua/lib/owed.lua
GRACE_MS = 5_000  # a registration outlives the wait by this


def take_flow(
    partitions: int, most: int, lease_ms: int, waits: Sequence[callbacks.Waiting] = ()
) -> Flow[callbacks.Found]:
    """One look at all partitions. The instants are those of the last one looked at, the next the earliest of all."""
    debts: list[Debt] = []
    now_ms, following = 0, []
    for partition in range(partitions):
        if len(debts) == most:
            break
        waiting = waits[partition] if waits else callbacks.Waiting()
        found = yield callbacks.take_callbacks(most - len(debts), lease_ms, waiting, partition)
        now_ms = found.now_ms
        debts += found.debts
        following += [found.next_at_ms] if found.next_at_ms is not None else []
    return callbacks.Found(now_ms, min(following, default=None), debts)


async def take_waiting(store: Store, most: int, lease_ms: int, wait_ms: int) -> Debts:
    await store.open()
    give_up_at_s = time.monotonic() + wait_ms / 1000
    earlier: set[Place] = set()  # where an earlier look may have left us registered; a ring ends a registration
    while True:
        async with _listening(store) as listeners:
            owed, looks_again = {OWED}, False
            try:
                left_s = max(0.0, give_up_at_s - time.monotonic())
                found = await store.run(_registering(store, most, lease_ms, listeners, left_s))
                left_s = give_up_at_s - time.monotonic()
                if found.debts or not wait_ms:
                    owed = earlier
                if found.debts or left_s <= 0:
                    return _debts(found)
                await _rung(listeners, min(left_s, BLOCK_S, _until_due_s(found)))
                earlier = {OWED} if any(one.was_rung is None for _, one in listeners) else set()
                looks_again = True
            finally:
                for bell, listener in listeners if not looks_again else ():
                    bell.leave(listener, owed)


@contextlib.asynccontextmanager
async def _listening(store: Store) -> AsyncIterator[list[tuple[Bell, Listener]]]:
    """One listener per partition; they share their event."""
    event = asyncio.Event()
    async with contextlib.AsyncExitStack() as stack:
        found = []
        for partition in range(store.partitions):
            listener = Listener((OWED,))
            listener.event = event
            found.append((await stack.enter_async_context(store.listening(partition, listener)), listener))
        yield found


def _registering(
    store: Store, most: int, lease_ms: int, listeners: list[tuple[Bell, Listener]], left_s: float
) -> Flow[callbacks.Found]:
    for_ms = int(min(left_s, BLOCK_S) * 1000) + GRACE_MS
    waits = [callbacks.Waiting(bell.name, for_ms, bell.others_wait(one)) for bell, one in listeners] if left_s else ()
    return take_flow(store.partitions, most, lease_ms, waits)


def _until_due_s(found: callbacks.Found) -> float:
    return BLOCK_S if found.next_at_ms is None else max(0.001, (found.next_at_ms - found.now_ms) / 1000)


async def _rung(listeners: list[tuple[Bell, Listener]], within_s: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            await listeners[0][1].event.wait()


def take_now(store: Store, most: int, lease_ms: int, wait_ms: int) -> Debts:
    if wait_ms:
        raise BadInput("Callbacks are waited for in an event loop; await this, or ask with wait_ms=0.")
    store.open_now()
    return _debts(store.run_now(take_flow(store.partitions, most, lease_ms)))


def _debts(found: callbacks.Found) -> Debts:
    return Debts(found.debts, found.next_at_ms)


def page_flow(partitions: int, given_up: bool, most: int, cursor: str) -> Flow[DebtPage]:
    """The cursor says in which partition, and behind how many of its callbacks."""
    partition, start = _read_cursor(cursor)
    found: list[Debt] = []
    while partition < partitions and len(found) < most:
        wanted = most - len(found)
        part = yield callbacks.callbacks(given_up, start, wanted, partition)
        found += part
        partition, start = (partition, start + len(part)) if len(part) == wanted else (partition + 1, 0)
    return DebtPage(found, f"{partition}.{start}" if partition < partitions else "")


def _read_cursor(cursor: str) -> tuple[int, int]:
    partition, _, start = (cursor or "0.0").partition(".")
    if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in (partition, start)):
        raise BadInput("The cursor is not one that a page gave out; start again without it.")
    return int(partition), int(start)
