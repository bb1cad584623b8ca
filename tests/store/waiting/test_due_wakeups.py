"""Wakeups of listeners at the instant at which something is due that another caller has seen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from windlass.store.store import Store
from windlass.store.waiting.wakeups import BLOCK_S, Listener, Place, Wakeups

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

HERE: Place = ("here", "")
ELSEWHERE: Place = ("elsewhere", "")
SOON_S = 0.02
LATER_S = BLOCK_S - 1
WITHIN_S = BLOCK_S / 2


@pytest.fixture
async def wakeups(store: Store) -> AsyncIterator[Wakeups]:
    async with store:
        yield store.wakeups.of(0)


@pytest.fixture
async def listener(wakeups: Wakeups) -> AsyncIterator[Listener]:
    listener = Listener((HERE,))
    wakeups.add(listener)
    yield listener
    wakeups.leave(listener)


async def wait_woken(listener: Listener) -> None:
    async with asyncio.timeout(WITHIN_S):
        await listener.event.wait()


@pytest.mark.parametrize("earlier_timers_s", [(), (LATER_S,), (SOON_S, LATER_S)])
async def test_listeners_are_woken_at_the_earliest_instant(
    wakeups: Wakeups, listener: Listener, earlier_timers_s: tuple[float, ...]
) -> None:
    for due_in_s in (*earlier_timers_s, SOON_S):
        wakeups.wake_when_due([ELSEWHERE, HERE], due_in_s)
    await wait_woken(listener)


async def test_each_poll_of_a_listener_begins_without_a_timer(wakeups: Wakeups, listener: Listener) -> None:
    for _ in range(2):
        wakeups.wake_when_due([HERE], SOON_S)
        await wait_woken(listener)
        wakeups.renew(listener, (HERE,))


async def test_other_places_and_distant_instants_set_no_timer(wakeups: Wakeups, listener: Listener) -> None:
    other = Listener((ELSEWHERE,))
    wakeups.add(other)
    wakeups.wake_when_due([ELSEWHERE], SOON_S)
    wakeups.wake_when_due([HERE], BLOCK_S)
    await wait_woken(other)
    assert not listener.event.is_set()
    wakeups.leave(other)
