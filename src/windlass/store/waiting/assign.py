"""Assignment of jobs to idle workers: at once, or after a wait without polling."""

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
    queues: tuple[str, ...], options: AssignOptions, partition: int, registration: WaitRegistration = UNREGISTERED
) -> Flow[DispatchResult]:
    found = yield assign(queues, *options, partition, registration)
    if isinstance(found, Refusal):
        raise found
    return found  # type: ignore[no-any-return]


async def assign_waiting(
    store: Store, queues: tuple[str, ...], options: AssignOptions, wait_ms: int, partition: int, until: asyncio.Event
) -> Dispatch:
    """Assign jobs as soon as there are any; wait up to `wait_ms`. The engine sends a wakeup when a job becomes takeable
    in one of the queues and a worker is idle there.

    `until` ends the wait, but never cancels a command in flight: workers that it gave jobs would no longer be idle, and
    would not have their jobs either.
    """
    places = tuple((queue, "") for queue in queues)
    give_up_at_s = time.monotonic() + wait_ms / 1000
    while True:
        listener = Listener(places, event=asyncio.Event())
        async with store.wakeups.listen(partition, listener) as wakeups:
            polls_again = False
            try:
                left_s = max(0.0, give_up_at_s - time.monotonic())
                found = await take_once(store, assign_flow(queues, options, partition, _registration(wakeups, left_s)))
                left_s = give_up_at_s - time.monotonic()
                if found.taken.jobs or left_s <= 0 or until.is_set():
                    return found.dispatch
                await _wait_for_either(listener.event, until, min(_pause_s(found, left_s), BLOCK_S))
                polls_again = True
            finally:
                if not polls_again:
                    wakeups.leave(listener, places)


async def _wait_for_either(first: asyncio.Event, second: asyncio.Event, within_s: float) -> None:
    waits = {asyncio.ensure_future(event.wait()) for event in (first, second)}
    try:
        await asyncio.wait(waits, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


def _registration(wakeups: Wakeups, left_s: float) -> WaitRegistration:
    return WaitRegistration(wakeups.name, int(min(left_s, BLOCK_S) * 1000) + GRACE_MS)


def _pause_s(found: DispatchResult, left_s: float) -> float:
    due_at_ms = found.taken.next_due_at_ms
    return left_s if due_at_ms is None else min(left_s, max(0, due_at_ms - found.now_ms) / 1000)
