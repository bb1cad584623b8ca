"""Jobs for workers that have said that they are idle: given at once, or waited for without polling."""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple

from windlass.core.errors import Refusal
from windlass.core.operations import Dispatch
from windlass.store.commands.assign import assign
from windlass.store.commands.command import Flow
from windlass.store.commands.push import DispatchResult
from windlass.store.commands.take import UNREGISTERED, WaitRegistration
from windlass.store.store import Store

from .take import GRACE_MS, take_once
from .wakeups import BLOCK_S, Listener, Wakeups


class AssignOptions(NamedTuple):
    most: int
    accept_ms: int
    spends_attempt: bool


def assign_flow(
    queues: tuple[str, ...], terms: AssignOptions, partition: int, registration: WaitRegistration = UNREGISTERED
) -> Flow[DispatchResult]:
    found = yield assign(queues, *terms, partition, registration)
    if isinstance(found, Refusal):
        raise found
    return found  # type: ignore[no-any-return]


async def assign_waiting(
    store: Store, queues: tuple[str, ...], terms: AssignOptions, wait_ms: int, partition: int, until: asyncio.Event
) -> Dispatch:
    """Whoever makes a job takeable in one of these queues rings, if a worker is idle there. `until` ends the wait, but
    never a look that is under way: workers that were given jobs by it would be idle no more, and without a job."""
    places = tuple((queue, "") for queue in queues)
    give_up_at_s = time.monotonic() + wait_ms / 1000
    while True:
        listener = Listener(places, event=asyncio.Event())
        async with store.wakeups.listen(partition, listener) as bell:
            looks_again = False
            try:
                left_s = max(0.0, give_up_at_s - time.monotonic())
                found = await take_once(store, assign_flow(queues, terms, partition, _registered(bell, left_s)))
                left_s = give_up_at_s - time.monotonic()
                if found.taken.jobs or left_s <= 0 or until.is_set():
                    return found.dispatch
                await _either(listener.event, until, min(_pause_s(found, left_s), BLOCK_S))
                looks_again = True
            finally:
                if not looks_again:
                    bell.leave(listener, places)


async def _either(one: asyncio.Event, other: asyncio.Event, within_s: float) -> None:
    waits = {asyncio.ensure_future(event.wait()) for event in (one, other)}
    try:
        await asyncio.wait(waits, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


def _registered(bell: Wakeups, left_s: float) -> WaitRegistration:
    return WaitRegistration(bell.name, int(min(left_s, BLOCK_S) * 1000) + GRACE_MS)


def _pause_s(found: DispatchResult, left_s: float) -> float:
    due_at_ms = found.taken.next_due_at_ms
    return left_s if due_at_ms is None else min(left_s, max(0, due_at_ms - found.now_ms) / 1000)
