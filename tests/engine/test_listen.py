"""listen: the loops sleep until something is due earlier than they knew."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from helpers import new

from engine.scheduled import scheduled
from namespace import ask
from windlass.core.errors import BadInput
from windlass.core.requests import Take
from windlass.service import Service
from windlass.store.store import Store


async def _until_registered(store: Store) -> None:
    while not await asyncio.to_thread(ask, store, "EXISTS", f"{store.root(0)}:waiters:"):  # noqa: ASYNC110 (the engine's news, not ours)
        await asyncio.sleep(0.002)


async def _heard(service: Service, store: Store, happens: Callable[[], Awaitable[object]], for_s: float) -> bool:
    listening = asyncio.ensure_future(service.listen(for_s=for_s))
    await _until_registered(store)
    await happens()
    return await listening


@pytest.mark.anyio
async def test_a_job_that_is_due_earlier_wakes_the_loops(service: Service, store: Store) -> None:
    assert await _heard(service, store, lambda: service.enqueue([new(delay_ms=60_000)]).one(), 10)
    assert await _heard(service, store, lambda: service.enqueue([new(delay_ms=30_000)]).one(), 10)
    await store.close()


@pytest.mark.anyio
async def test_a_lease_that_ends_earlier_wakes_the_loops(service: Service, store: Store) -> None:
    await service.enqueue([new()]).one()
    assert await _heard(service, store, lambda: service.take(Take(queues=("q",))), 10)
    await store.close()


@pytest.mark.anyio
async def test_an_occurrence_that_is_earlier_wakes_the_loops(service: Service, store: Store) -> None:
    assert await _heard(service, store, lambda: service.schedule(scheduled(every_ms=60_000)), 10)
    await service.schedule(scheduled("soon", every_ms=1_000))
    assert not await service.listen(for_s=10)  # not rung, but not asleep either: until the occurrence
    await store.close()


@pytest.mark.anyio
async def test_a_later_job_and_one_that_is_ready_do_not(service: Service, store: Store) -> None:
    await service.enqueue([new(delay_ms=30_000)]).one()

    async def happens() -> None:
        await service.enqueue([new(delay_ms=60_000), new()])

    assert not await _heard(service, store, happens, 0.1)
    await store.close()


def test_without_an_event_loop_it_is_refused(service: Service) -> None:
    with pytest.raises(BadInput):
        service.listen(for_s=1).wait()


def test_a_time_that_is_none(service: Service) -> None:
    with pytest.raises(BadInput, match="for_s"):
        service.listen(for_s=-1)
