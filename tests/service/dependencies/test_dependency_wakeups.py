"""Waiting takers are woken at once by changes among dependencies: by ends of children, and by work that is done in
steps."""

from __future__ import annotations

import asyncio

import pytest

from tests.service.helpers import new
from windlass.background import runner
from windlass.background.scheduler import Scheduler
from windlass.core.job import Job
from windlass.core.operations import Enqueued, Fail, Finish, Take
from windlass.service import Service

pytestmark = pytest.mark.anyio

WAIT_MS = 20_000  # far more than any test takes
SOON_S = 8.0  # a lost wakeup shows as a longer wait


async def take(service: Service, queue: str, most: int = 1, wait_ms: int = 0) -> list[Job]:
    return (await service.take(Take(queues=(queue,), most=most, wait_ms=wait_ms))).jobs


async def waiting_taker(service: Service, queue: str) -> asyncio.Task[list[Job]]:
    task = asyncio.create_task(take(service, queue, wait_ms=WAIT_MS))
    async with asyncio.timeout(SOON_S):
        while (await service.stats([queue]))[0].waiting_takers == 0:  # noqa: ASYNC110 (it happens in the engine)
            await asyncio.sleep(0.002)
    return task


async def parent_with_children(service: Service, children: int) -> Job:
    await service.enqueue([new("p", lease_ms=600_000)])
    (parent,) = await take(service, "p")
    await service.enqueue([new("c", parent=parent.id, held=True) for _ in range(children)])
    return parent


async def test_a_hand_over_wakes_a_taker_of_children(service: Service) -> None:
    async with service.store, asyncio.timeout(SOON_S):
        parent = await parent_with_children(service, 1)
        taker = await waiting_taker(service, "c")
        assert await service.finish([Finish(parent.id, parent.lease_token)]) == ["waiting"]
        assert [job.parent for job in await taker] == [parent.id]


@pytest.mark.parametrize("how", ["finish", "fail", "cancel"])
async def test_the_last_end_wakes_a_taker_of_the_parent(service: Service, how: str) -> None:
    async with service.store, asyncio.timeout(SOON_S):
        parent = await parent_with_children(service, 1)
        await service.finish([Finish(parent.id, parent.lease_token)])
        taker = await waiting_taker(service, "p")
        if how == "cancel":
            await service.cancel([one.job.id for one in (await service.list_members(parent.id)).members])
        else:
            (child,) = await take(service, "c")
            if how == "finish":
                await service.finish([Finish(child.id, child.lease_token)])
            else:
                await service.fail([Fail(id=child.id, token=child.lease_token)])
        assert [job.id for job in await taker] == [parent.id]


async def test_the_deletion_of_a_parent_wakes_a_taker_of_its_held_child(service: Service) -> None:
    async with service.store, asyncio.timeout(SOON_S):
        parent = await parent_with_children(service, 1)
        taker = await waiting_taker(service, "c")
        await service.delete([parent.id], even_leased=True)
        assert len(await taker) == 1


async def test_the_loops_continue_with_many_children_by_themselves(service: Service) -> None:
    async with service.store, asyncio.timeout(SOON_S):
        parent = await parent_with_children(service, 1_000)
        loops = asyncio.create_task(runner.run(service, lambda: [Scheduler()]))
        await service.finish([Finish(parent.id, parent.lease_token)])
        while (await service.stats(["c"]))[0].queued < 1_000:  # noqa: ASYNC110 (it happens in the engine)
            await asyncio.sleep(0.005)
        loops.cancel()


async def test_a_waiting_taker_continues_with_many_children_where_no_loop_runs(service: Service) -> None:
    async with service.store, asyncio.timeout(SOON_S):
        (first,) = await service.enqueue([new("a")])
        assert isinstance(first, Enqueued)
        await service.enqueue([new("b", after=(first.id,)) for _ in range(300)])
        (job,) = await take(service, "a")
        last_taker = asyncio.create_task(_take_all(service, "b", 300))
        await service.finish([Finish(job.id, job.lease_token)])
        assert await last_taker == 300


async def _take_all(service: Service, queue: str, count: int) -> int:
    taken = 0
    while taken < count:
        taken += len(await take(service, queue, most=50, wait_ms=WAIT_MS))
    return taken
