"""Waiting without polling for jobs to push: for a job that a worker with free capacity accepts, for free capacity, or
for a new worker."""

from __future__ import annotations

import asyncio
import time

from windlass.core.errors import Refusal
from windlass.core.operations import Dispatch
from windlass.store.commands.command import Flow
from windlass.store.commands.push import DispatchResult, dispatch
from windlass.store.commands.take import UNREGISTERED, WaitRegistration
from windlass.store.store import Store

from .take import GRACE_MS, take_once
from .wakeups import BLOCK_S, Listener, Place, Wakeups, wait_for_event

PUSH: Place = ("\2push", "")  # as in lua/lib/workers/push_workers.lua


def dispatch_flow(
    most: int, accept_ms: int, partition: int, registration: WaitRegistration = UNREGISTERED
) -> Flow[DispatchResult]:
    found = yield dispatch(most, accept_ms, partition, registration)
    if isinstance(found, Refusal):
        raise found
    return found  # type: ignore[no-any-return]


async def dispatch_waiting(store: Store, most: int, accept_ms: int, wait_ms: int, partition: int) -> Dispatch:
    """Lease jobs for push workers as soon as there are any; wait up to `wait_ms`. The reply names the places where the
    engine sends wakeups. If they include places without a listener, listen there and poll once more."""
    await store.open()
    give_up_at_s = time.monotonic() + wait_ms / 1000
    places, still_registered = frozenset((PUSH,)), frozenset[Place]()
    while True:
        listener = Listener(tuple(places), event=asyncio.Event())
        async with store.wakeups.listen(partition, listener) as wakeups:
            registered, polls_again = places, False
            try:
                found = await _poll(store, most, accept_ms, partition, wakeups, listener)
                left_s = give_up_at_s - time.monotonic()
                if found.taken.jobs:
                    registered = still_registered
                if found.taken.jobs or left_s <= 0:
                    return found.dispatch
                wanted = found.places | {PUSH}
                if wanted <= places:
                    await wait_for_event(listener.event, min(_pause_s(found, left_s), BLOCK_S))
                    still_registered = places - {listener.woken_place} if listener.woken_place else places
                polls_again = True
            finally:
                if not polls_again:
                    wakeups.leave(listener, registered)
        places = wanted


async def _poll(
    store: Store, most: int, accept_ms: int, partition: int, wakeups: Wakeups, listener: Listener
) -> DispatchResult:
    registration = WaitRegistration(wakeups.name, BLOCK_S * 1000 + GRACE_MS, wakeups.others_wait(listener))
    return await take_once(store, dispatch_flow(most, accept_ms, partition, registration))


def _pause_s(found: DispatchResult, left_s: float) -> float:
    due_at_ms = found.taken.next_due_at_ms
    return left_s if due_at_ms is None else min(left_s, max(0, due_at_ms - found.now_ms) / 1000)
