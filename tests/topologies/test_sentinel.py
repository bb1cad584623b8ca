"""Jobs on a real Sentinel group whose primary dies or fails over."""

from __future__ import annotations

import asyncio
import re

import pytest

from tests.support.console import run_with_settings
from tests.topologies.conftest import new_store
from tests.topologies.nodes import Node, SentinelNode, SentinelProcesses, until
from tests.topologies.workload import QUEUES, run_through, wait_for_job
from windlass.core.errors import BadSetting, EngineError, EngineUnavailable
from windlass.core.job import NewJob
from windlass.core.operations import Enqueued, Take
from windlass.service import Service

pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("sentinel")]


async def test_a_killed_primary_loses_nothing_that_a_replica_has(sentinels: SentinelProcesses) -> None:
    async def kill() -> None:
        await asyncio.to_thread(sentinels.primary.kill)

    log = await run_through(new_store(sentinels.url), kill, durability="replica")
    log.check(at_least=100, may_run_again=True)


async def test_a_coordinated_failover_loses_nothing(sentinels: SentinelProcesses) -> None:
    async def hand_over() -> None:
        old = sentinels.primary
        await asyncio.to_thread(sentinels.fail_over, "COORDINATED")
        await asyncio.to_thread(until, lambda: sentinels.primary is not old, "another primary")

    with sentinels.patient():
        (await run_through(new_store(sentinels.url, partitions=3), hand_over)).check(at_least=100)


async def test_all_connections_leave_a_replaced_primary(sentinels: SentinelProcesses) -> None:
    """A plain SENTINEL FAILOVER leaves the old primary alive, and it accepts writes for ten more seconds."""
    old = sentinels.primary
    store = new_store(sentinels.url)
    service = Service(store)
    async with store, asyncio.timeout(20):
        waiting = asyncio.create_task(wait_for_job(service, ("q",)))
        await asyncio.to_thread(until, lambda: service.stats(["q"]).wait()[0].waiting_takers > 0, "it waits")
        await asyncio.to_thread(sentinels.fail_over)
        await asyncio.to_thread(until, lambda: sentinels.primary is not old, "another primary")
        assert old.is_primary, "the test needs it before it is demoted"
        new = sentinels.primary
        await asyncio.to_thread(until, lambda: _clients(new) > 0, "the connections have moved")
        job = await service.enqueue([NewJob(queue="q", name="n")]).one()
        assert await waiting == job.id
        assert old.is_primary
        assert new.send_command("EXISTS", f"{store.root(0)}:queues") == 1


def _clients(node: Node) -> int:
    return int(node.send_command("CLIENT", "LIST").count(b"cmd=blpop"))


async def test_waiting_takers_outlive_a_failover(sentinels: SentinelProcesses) -> None:
    store = new_store(sentinels.url)
    service = Service(store)
    async with store, asyncio.timeout(30):
        waiting = asyncio.create_task(wait_for_job(service, QUEUES))
        await asyncio.to_thread(until, lambda: service.stats(QUEUES[:1]).wait()[0].waiting_takers > 0, "it waits")
        sentinels.primary.kill()
        job = await service.enqueue([NewJob(queue=QUEUES[0], name="n")]).one()
        assert await waiting == job.id


async def test_unreachable_sentinels_are_skipped(sentinels: SentinelProcesses) -> None:
    store = new_store(sentinels.url.replace("127.0.0.1:", "127.0.0.1:1,127.0.0.1:", 1))
    assert isinstance(Service(store).enqueue([NewJob(queue="q", name="n")]).one().wait(), Enqueued)
    store.close_sync()


async def test_a_command_reports_that_the_named_primary_is_gone() -> None:
    """A person waits: this is reported at once, not after the patience of a program."""
    with SentinelNode(Node(tcp=True), "jobs", None) as sentinel:  # the node is not started
        url = f"redis+sentinel://127.0.0.1:{sentinel.port}/jobs"
        done = await asyncio.to_thread(run_with_settings, "queues", "ls", "--url", url)
    assert done.code == 75
    assert re.search(r"the sentinels name the primary 127\.0\.0\.1:\d+, and there: Connection refused\.", done.err)


async def test_errors_when_the_primary_cannot_be_found(sentinels: SentinelProcesses) -> None:
    unreachable = new_store("redis+sentinel://127.0.0.1:1,127.0.0.1:2/jobs", patience_s=0.2)
    with pytest.raises(EngineUnavailable, match="No sentinel"):
        unreachable.open_sync()
    unknown = new_store(sentinels.url.replace("/jobs/", "/jbos/"))
    with pytest.raises(BadSetting, match="'jbos'"):
        unknown.open_sync()
    refused = new_store(sentinels.url.replace(sentinels.password, "wrong"))
    with pytest.raises(EngineError, match="WRONGPASS") as error:
        refused.open_sync()
    assert "wrong" not in str(error.value)
    for store in (unreachable, unknown, refused):
        store.close_sync()


async def test_a_missing_confirmation_is_reported(
    sentinels: SentinelProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = new_store(sentinels.url, durability="replica")
    service = Service(store)
    async with store:
        assert (await service.enqueue([NewJob(queue="q", name="n")]).one()).is_durable
        replicas = [node for node in sentinels.nodes if node is not sentinels.primary]
        monkeypatch.setattr("windlass.store.store.DURABLE_WAIT_MS", 200)  # no replica will answer
        try:
            for node in replicas:
                node.freeze()
            answer = await service.enqueue([NewJob(queue="q", name="n")]).one()
        finally:
            for node in replicas:
                node.thaw()
        assert (answer.status, answer.is_durable) == ("queued", False)
        assert len((await service.take(Take(queues=("q",), most=2))).jobs) == 2
