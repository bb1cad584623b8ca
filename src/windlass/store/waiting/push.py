"""Waiting, without polling, for jobs that can be pushed: a job that a worker with room wants, room on a worker, or a
worker that has registered."""

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
    """Where the engine rings is known only from its answer: when it names places that nobody listens at yet, one more
    look is taken from there."""
    await store.open()
    give_up_at_s = time.monotonic() + wait_ms / 1000
    places, registered = frozenset((PUSH,)), frozenset[Place]()
    while True:
        listener = Listener(tuple(places), event=asyncio.Event())
        async with store.wakeups.listen(partition, listener) as bell:
            owed, looks_again = places, False
            try:
                found = await _look(store, most, accept_ms, partition, bell, listener)
                left_s = give_up_at_s - time.monotonic()
                if found.taken.jobs:
                    owed = registered
                if found.taken.jobs or left_s <= 0:
                    return found.dispatch
                wanted = found.places | {PUSH}
                if wanted <= places:
                    await wait_for_event(listener.event, min(_pause_s(found, left_s), BLOCK_S))
                    registered = places - {listener.woken_place} if listener.woken_place else places
                looks_again = True
            finally:
                if not looks_again:
                    bell.leave(listener, owed)
        places = wanted


async def _look(
    store: Store, most: int, accept_ms: int, partition: int, bell: Wakeups, listener: Listener
) -> DispatchResult:
    registration = WaitRegistration(bell.name, BLOCK_S * 1000 + GRACE_MS, bell.others_wait(listener))
    return await take_once(store, dispatch_flow(most, accept_ms, partition, registration))


def _pause_s(found: DispatchResult, left_s: float) -> float:
    due_at_ms = found.taken.next_due_at_ms
    return left_s if due_at_ms is None else min(left_s, max(0, due_at_ms - found.now_ms) / 1000)
