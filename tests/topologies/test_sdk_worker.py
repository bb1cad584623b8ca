"""SDK worker on queues of several partitions, which continues by itself after a failover."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.topologies.conftest import new_store
from tests.topologies.nodes import ClusterProcesses, SentinelProcesses, until
from tests.topologies.workload import QUEUES
from windlass import Call, Windlass, Worker
from windlass.store.store import Store

pytestmark = pytest.mark.anyio
LIMIT_S = 60.0
JOBS = 200


async def _work_through(store: Store, trouble: Callable[[], None]) -> None:
    """Run half of the jobs before the trouble and half after it. A job whose lease a failover loses is taken again."""
    app = Windlass()
    app.connect(store)
    ran: set[int] = set()

    @app.task(lease="3s")
    async def note(number: int) -> int:
        ran.add(number)
        return number

    def calls(numbers: range) -> list[Call[int]]:
        return [note.using(queue=QUEUES[number % len(QUEUES)]).call(number) for number in numbers]

    worker = Worker(app, queues=QUEUES, concurrency=10, grace=5)
    running = asyncio.create_task(worker.run())
    async with asyncio.timeout(LIMIT_S):
        await worker.wait_until_ready()
        first = await app.aenqueue_many(calls(range(JOBS // 2)), durability="replica")
        assert [await handle for handle in first] == list(range(JOBS // 2))
        await asyncio.to_thread(trouble)
        second = await app.aenqueue_many(calls(range(JOBS // 2, JOBS)), durability="replica")
        assert [await handle for handle in second] == list(range(JOBS // 2, JOBS))
        worker.stop()
        await running
    await app.aclose()
    assert ran == set(range(JOBS))
    store.close_sync()


@pytest.mark.xdist_group("cluster")
async def test_on_a_cluster(cluster: ClusterProcesses) -> None:
    def kill() -> None:
        victim = cluster.primary_of_partition(0)
        replica = cluster.replica_of(victim)
        victim.kill()
        until(lambda: replica.is_primary, "the replica takes over")
        victim.start()

    await _work_through(new_store(cluster.url), kill)


@pytest.mark.xdist_group("sentinel")
async def test_behind_sentinels(sentinels: SentinelProcesses) -> None:
    def kill() -> None:
        victim = sentinels.primary
        victim.kill()
        until(lambda: sentinels.primary is not victim, "the replica takes over")
        victim.start()

    await _work_through(new_store(sentinels.url, partitions=4), kill)
