"""A real Sentinel group: the primary dies, or hands over, while jobs flow."""

from __future__ import annotations

import asyncio

import pytest

from topologies.conftest import new_store
from topologies.living import QUEUES, live_through, wait_for_one
from topologies.nodes import SentinelProcesses, until
from windlass.core.errors import BadSetting, EngineError, EngineUnavailable
from windlass.core.job import NewJob
from windlass.core.requests import Enqueued, Take
from windlass.service import Service

pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("sentinel")]


async def test_a_killed_primary_loses_nothing_that_a_replica_has(sentinels: SentinelProcesses) -> None:
    async def kill() -> None:
        await asyncio.to_thread(sentinels.primary.kill)

    witness = await live_through(new_store(sentinels.url), kill, durability="replica")
    witness.judge(at_least=100, may_run_again=True)


async def test_a_planned_failover_is_survived(sentinels: SentinelProcesses) -> None:
    """Sentinel demotes without waiting for the replica: durability decides what is kept, as after a kill."""

    async def hand_over() -> None:
        old = sentinels.primary
        sentinels.sentinels[0].ask("SENTINEL", "FAILOVER", sentinels.service)
        await asyncio.to_thread(until, lambda: sentinels.primary is not old, "another primary")

    witness = await live_through(new_store(sentinels.url, partitions=3), hand_over, durability="replica")
    witness.judge(at_least=100, may_run_again=True)


async def test_waiting_takers_outlive_a_failover(sentinels: SentinelProcesses) -> None:
    store = new_store(sentinels.url)
    service = Service(store)
    async with store, asyncio.timeout(30):
        waiting = asyncio.create_task(wait_for_one(service, QUEUES))
        while not (await service.stats([QUEUES[0]]))[0].waiting_takers:
            await asyncio.sleep(0.01)
        sentinels.primary.kill()
        job = await service.enqueue([NewJob(queue=QUEUES[0], name="n")]).one()
        assert await waiting == job.id


async def test_sentinels_that_are_away_are_passed_over(sentinels: SentinelProcesses) -> None:
    store = new_store(sentinels.url.replace("127.0.0.1:", "127.0.0.1:1,127.0.0.1:", 1))
    assert isinstance(Service(store).enqueue([NewJob(queue="q", name="n")]).one().wait(), Enqueued)
    store.close_now()


async def test_what_is_said_when_the_primary_cannot_be_found(sentinels: SentinelProcesses) -> None:
    nobody = new_store("redis+sentinel://127.0.0.1:1,127.0.0.1:2/jobs", patience_s=0.2)
    with pytest.raises(EngineUnavailable, match="No sentinel"):
        nobody.open_now()
    unknown = new_store(sentinels.url.replace("/jobs/", "/jbos/"))
    with pytest.raises(BadSetting, match="'jbos'"):
        unknown.open_now()
    refused = new_store(sentinels.url.replace(sentinels.password, "wrong"))
    with pytest.raises(EngineError, match="WRONGPASS") as error:
        refused.open_now()
    assert "wrong" not in str(error.value)
    for store in (nobody, unknown, refused):
        store.close_now()


async def test_a_confirmation_that_does_not_come_is_said(sentinels: SentinelProcesses) -> None:
    store = new_store(sentinels.url, durability="replica")
    service = Service(store)
    async with store:
        assert (await service.enqueue([NewJob(queue="q", name="n")]).one()).is_durable
        replicas = [node for node in sentinels.nodes if node is not sentinels.primary]
        try:
            for node in replicas:
                node.freeze()
            answer = await service.enqueue([NewJob(queue="q", name="n")]).one()
        finally:
            for node in replicas:
                node.thaw()
        assert (answer.status, answer.is_durable) == ("queued", False)
        assert len((await service.take(Take(queues=("q",), most=2))).jobs) == 2
