"""listen: the loops sleep until work is due earlier than they knew."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.service.helpers import new
from tests.service.schedules.schedule_builders import scheduled
from tests.support.namespace import send_command
from windlass.background import runner
from windlass.core.errors import BadInput
from windlass.core.operations import Take
from windlass.service import Service
from windlass.store.commands.admin import maintenance
from windlass.store.commands.command import Flow
from windlass.store.commands.take import WaitRegistration
from windlass.store.store import Store
from windlass.store.waiting.take import take_flow


async def _until_registered(store: Store) -> None:
    while not await asyncio.to_thread(send_command, store, "EXISTS", f"{store.root(0)}:waiters:"):  # noqa: ASYNC110 (the engine's news, not ours)
        await asyncio.sleep(0.002)


async def _read_wakeups(service: Service, store: Store, happens: Callable[[], Awaitable[object]], for_s: float) -> bool:
    listening = asyncio.ensure_future(service.listen(for_s=for_s))
    await _until_registered(store)
    await happens()
    async with asyncio.timeout(30):
        return await listening


@pytest.mark.anyio
async def test_a_job_that_is_due_earlier_wakes_the_loops(service: Service, store: Store) -> None:
    assert await _read_wakeups(service, store, lambda: service.enqueue([new(delay_ms=40)]).one(), 60)
    await store.close()


@pytest.mark.anyio
async def test_a_lease_that_ends_earlier_wakes_the_loops(service: Service, store: Store) -> None:
    await service.enqueue([new()]).one()
    assert await _read_wakeups(service, store, lambda: service.take(Take(queues=("q",), lease_ms=40)), 60)
    await store.close()


@pytest.mark.anyio
async def test_an_occurrence_that_is_earlier_wakes_the_loops(service: Service, store: Store) -> None:
    assert await _read_wakeups(service, store, lambda: service.schedule(scheduled(every_ms=1_000)), 60)
    assert not await service.listen(for_s=60)  # known at first
    await store.close()


@pytest.mark.anyio
async def test_what_is_due_later_and_what_is_ready_do_not(service: Service, store: Store) -> None:
    await service.enqueue([new(delay_ms=30_000)]).one()

    async def happens() -> None:
        await service.enqueue([new(delay_ms=60_000), new()])

    assert not await _read_wakeups(service, store, happens, 0.1)
    await store.close()


def _registered_and_dead(store: Store) -> None:
    """A process that listened, and waited for a job, as kill -9 leaves it. It comes first: its time ends first."""
    store.run_sync(_one(maintenance.listen("dead", 50_000, 0)))
    store.run_sync(take_flow(Take(queues=("q",)), ["q"], 0, WaitRegistration("dead", 50_000, False)))


def _one(call: Any) -> Flow[Any]:
    return (yield call)


@pytest.mark.anyio
async def test_several_waiters_are_woken_since_one_may_be_dead(service: Service, store: Store) -> None:
    await service.enqueue([new()]).one()
    store.run_sync(_one(maintenance.listen("dead", 50_000, 0)))
    listening = [asyncio.ensure_future(service.listen(for_s=60)) for _ in range(2)]
    while await asyncio.to_thread(send_command, store, "ZCARD", f"{store.root(0)}:waiters:") < 2:  # noqa: ASYNC110
        await asyncio.sleep(0.002)
    await service.take(Take(queues=("q",), lease_ms=40))
    async with asyncio.timeout(30):
        assert await asyncio.gather(*listening) == [True, True]
    await store.close()


@pytest.mark.anyio
async def test_a_wakeup_that_a_dead_taker_got_is_repeated_by_sleeping_loops(service: Service, store: Store) -> None:
    _registered_and_dead(store)
    async with asyncio.timeout(30):
        loops = asyncio.create_task(runner.run(service))
        while await asyncio.to_thread(send_command, store, "ZCARD", f"{store.root(0)}:waiters:") < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.002)
        waiting = asyncio.ensure_future(service.take(Take(queues=("q",), wait_ms=60_000)))
        while (await service.stats(["q"]))[0].waiting_takers < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.002)
        await service.enqueue([new()]).one()
        assert len((await waiting).jobs) == 1
        loops.cancel()
        await asyncio.wait({loops})
    await store.close()


def test_without_an_event_loop_it_is_refused(service: Service) -> None:
    with pytest.raises(BadInput):
        service.listen(for_s=1).wait()


def test_a_time_that_is_none(service: Service) -> None:
    with pytest.raises(BadInput, match="for_s"):
        service.listen(for_s=-1)
