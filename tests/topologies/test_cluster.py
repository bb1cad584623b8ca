"""Jobs on a real cluster whose nodes die, fail over and exchange slots."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest

from tests.topologies.conftest import new_store
from tests.topologies.nodes import ClusterProcesses, Node, until
from tests.topologies.slot_moves import PARTITION, end_move, migrate, migrating, move_keys, queue_in
from tests.topologies.workload import QUEUES, run_through, wait_for_job
from windlass.background.janitor import Janitor
from windlass.core.errors import EngineUnsuitable, PartitionStopped
from windlass.core.job import NewJob
from windlass.core.operations import Finish, Take
from windlass.core.partition import hash_tags, slot_of
from windlass.service import Service
from windlass.store.connection.endpoint import ClusterSeeds, parse_url
from windlass.store.connection.reconnect import ReconnectingConnection, SyncReconnectingConnection
from windlass.store.topology.cluster import Cluster

pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("cluster")]


async def test_a_killed_primary_loses_nothing_that_a_replica_has(cluster: ClusterProcesses) -> None:
    async def kill() -> None:
        victim = cluster.primary_of_partition(0)
        replica = cluster.replica_of(victim)
        victim.kill()
        await asyncio.to_thread(until, lambda: replica.is_primary, "the replica takes over")
        victim.start()  # a new primary without a replica cannot confirm writes

    log = await run_through(new_store(cluster.url), kill, durability="replica")
    log.check(at_least=100, may_run_again=True)


async def test_without_replica_durability_only_the_last_moments_are_lost(cluster: ClusterProcesses) -> None:
    victim = cluster.primary_of_partition(0)
    store = new_store(cluster.url)
    service = Service(store)
    accepted: dict[bytes, float] = {}

    async def produce() -> None:
        while True:
            for answer in await service.enqueue([NewJob(queue=queue, name="n") for queue in QUEUES]):
                accepted[answer.id] = time.monotonic()  # type: ignore[union-attr]

    async with store, asyncio.timeout(30):
        producing = asyncio.create_task(produce())
        await asyncio.to_thread(until, lambda: len(accepted) > 1_000, "the producers are at work")
        killed_at_s = time.monotonic()
        victim.kill()
        await asyncio.sleep(0)
        before = dict(accepted)
        await asyncio.to_thread(until, lambda: max(accepted.values()) > killed_at_s + 0.5, "the producers carry on")
        producing.cancel()
        await asyncio.wait({producing})
        found: set[bytes] = set()
        while jobs := (await service.take(Take(queues=QUEUES, most=500))).jobs:
            found.update(job.id for job in jobs)
        lost = before.keys() - found
        assert all(before[job_id] > killed_at_s - 0.2 for job_id in lost), "older than the replication lag"
        assert len(found) > len(before) / 2


async def test_a_planned_failover_loses_nothing(cluster: ClusterProcesses) -> None:
    async def hand_over() -> None:
        for primary in cluster.primaries:
            replica = cluster.replica_of(primary)
            replica.send_command("CLUSTER", "FAILOVER")
            await asyncio.to_thread(until, lambda replica=replica: replica.is_primary, "the replica takes over")

    with cluster.patient():
        (await run_through(new_store(cluster.url), hand_over)).check(at_least=100)


async def test_waiting_takers_outlive_a_failover(cluster: ClusterProcesses) -> None:
    store = new_store(cluster.url)
    service = Service(store)
    async with store, asyncio.timeout(30):
        victim = cluster.primary_of_partition(0)
        theirs = [queue for queue in QUEUES if cluster.primary_of_partition(store.partition_of_queue(queue)) is victim]
        several = asyncio.create_task(wait_for_job(service, QUEUES))
        alone = asyncio.create_task(wait_for_job(service, ("{0}alone",)))
        await asyncio.to_thread(until, lambda: _waiting(service, (*QUEUES, "{0}alone")) == 25, "both wait")
        victim.kill()
        ids = {(await service.enqueue([NewJob(queue=queue, name="n")]).one()).id for queue in ("{0}alone", theirs[0])}
        assert {await several, await alone} == ids


def _waiting(service: Service, queues: tuple[str, ...]) -> int:
    return sum(stats.waiting_takers for stats in service.stats(queues).wait())


async def test_slots_move_atomically_while_jobs_flow(cluster: ClusterProcesses) -> None:
    slot = slot_of(hash_tags(16)[PARTITION])

    async def move() -> None:
        source = cluster.primary_of(slot)
        target = next(node for node in cluster.primaries if node is not source)
        for node, other in ((source, target), (target, source)):
            node.send_command("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", other.id)
            await asyncio.to_thread(until, lambda other=other: cluster.primary_of(slot) is other, "the slot has moved")

    with cluster.patient():
        (await run_through(new_store(cluster.url), move)).check(at_least=100)


async def test_takers_pause_while_a_slot_moves_key_by_key(
    cluster: ClusterProcesses, caplog: pytest.LogCaptureFixture
) -> None:
    store = new_store(cluster.url)
    service, janitor = Service(store), Janitor()
    async with store, asyncio.timeout(30):
        queue = queue_in(store, PARTITION)
        job = await service.enqueue([NewJob(queue=queue, name="n")]).one()
        await janitor.tick(service)
        assert len((await service.take(Take(queues=(queue,)))).jobs) == 1
        await service.requeue([job.id])
        with migrating(cluster, slot_of(hash_tags(16)[PARTITION])):
            assert await service.stop_torn() == [PARTITION]
            with pytest.raises(PartitionStopped, match="key by key"):
                await service.take(Take(queues=(queue,)))
            assert (await service.finish_and_take([], [], Take(queues=(queue,)))).taken.jobs == []
            with caplog.at_level(logging.WARNING, "windlass.store"):
                assert (await service.take(Take(queues=(queue,), wait_ms=300))).jobs == []
            assert "key by key" in caplog.text
            elsewhere = next(name for name in QUEUES if store.partition_of_queue(name) != PARTITION)
            other = await service.enqueue([NewJob(queue=elsewhere, name="n")]).one()
            taken = (await service.take(Take(queues=(queue, elsewhere), most=2))).jobs
            assert [taken_job.id for taken_job in taken] == [other.id], "the other partitions are taken from"
        assert await service.stop_torn([PARTITION]) == []
        assert [taken_job.id for taken_job in (await service.take(Take(queues=(queue,)))).jobs] == [job.id]


async def test_doctor_reports_a_slot_that_moves_key_by_key_and_stops_its_takers(cluster: ClusterProcesses) -> None:
    store = new_store(cluster.url)
    service = Service(store)
    async with store, asyncio.timeout(60):
        queue = queue_in(store, PARTITION)
        await service.enqueue([NewJob(queue=queue, name="n")])
        assert "slot_torn" not in {finding.code for finding in (await service.doctor()).findings}
        with migrating(cluster, slot_of(hash_tags(16)[PARTITION])):
            (found,) = [
                finding for finding in (await service.doctor(repair=True)).findings if finding.code == "slot_torn"
            ]
            assert found.examples == (f"partition {PARTITION}",)
            with pytest.raises(PartitionStopped, match="key by key"):
                await service.take(Take(queues=(queue,)))
        await service.stop_torn([PARTITION])
        assert len((await service.take(Take(queues=(queue,)))).jobs) == 1
        diagnosis = await service.doctor()
        assert diagnosis.is_healthy, diagnosis.findings


async def test_a_stop_ends_by_itself(cluster: ClusterProcesses) -> None:
    store = new_store(cluster.url)
    service = Service(store)
    async with store, asyncio.timeout(30):
        queue = queue_in(store, PARTITION)
        await service.enqueue([NewJob(queue=queue, name="n")])
        with migrating(cluster, slot_of(hash_tags(16)[PARTITION])):
            await service.stop_torn()
        store.clock_offset_ms += 180_001
        assert len((await service.take(Take(queues=(queue,)))).jobs) == 1


async def test_a_slot_that_is_moved_key_by_key_to_the_end_is_found_again(cluster: ClusterProcesses) -> None:
    """With stopped takers, no job is lost: calls follow the root key to its new node."""
    store = new_store(cluster.url)
    service = Service(store)
    slot = slot_of(hash_tags(16)[PARTITION])
    async with store, asyncio.timeout(30):
        queue = queue_in(store, PARTITION)
        job = await service.enqueue([NewJob(queue=queue, name="n")]).one()
        for _ in range(2):  # there, and back
            with migrating(cluster, slot) as (source, target):
                await service.stop_torn()
                move_keys(source, target, slot)
                target.send_command("FUNCTION", "FLUSH")  # a node that never had one of our partitions has no library
                with pytest.raises(PartitionStopped):
                    await service.take(Take(queues=(queue,)))
                with pytest.raises(PartitionStopped):
                    service.take(Take(queues=(queue,))).wait()
                end_move(source, target, slot)
            await asyncio.to_thread(until, lambda t=target: cluster.primary_of(slot) is t, "the slot has moved")
            assert await service.stop_torn([PARTITION]) == []
            (taken,) = (await service.take(Take(queues=(queue,)))).jobs
            assert taken.id == job.id
            await service.requeue([job.id])
        (taken,) = (await service.take(Take(queues=(queue,)))).jobs
        assert await service.finish([Finish(taken.id, taken.lease_token)]) == [None]


async def test_calls_wait_until_a_migrating_slot_is_stable(cluster: ClusterProcesses) -> None:
    """Scripts cannot run while keys may be missing, but no call is refused for it."""
    store = new_store(cluster.url)
    service = Service(store)
    async with store, asyncio.timeout(30):
        queue = queue_in(store, PARTITION)
        await service.enqueue([NewJob(queue=queue, name="n")])
        with migrating(cluster, slot_of(hash_tags(16)[PARTITION])):
            late = asyncio.create_task(_enqueue(service, queue))
            done, _ = await asyncio.wait({late}, timeout=0.3)
            assert not done
        await late
        assert [job.name for job in (await service.take(Take(queues=(queue,), most=5))).jobs] == ["n", "late"]


async def _enqueue(service: Service, queue: str) -> None:
    await service.enqueue([NewJob(queue=queue, name="late")]).one()


async def test_redirections_are_followed(cluster: ClusterProcesses) -> None:
    """MOVED: the slot map is wrong. ASK: the keys are already on the other node."""
    addresses = parse_url(cluster.url)
    assert isinstance(addresses, ClusterSeeds)
    slot = slot_of("redirected")
    keys = [f"{{redirected}}{number}".encode() for number in range(2)]
    wrong = next(node for node in cluster.primaries if node is not cluster.primary_of(slot))
    for kind in (ReconnectingConnection, SyncReconnectingConnection):
        known = Cluster(addresses)
        known.refresh_sync()
        known.redirect_slot(slot, wrong.endpoint)
        connection = kind(known.route(slot), patience_s=5.0)
        assert await _call(connection, "SET", keys[0], "1") == b"OK"
        assert known.primary_of(slot) == cluster.primary_of(slot).endpoint, "the map was corrected"
        with migrating(cluster, slot) as (source, target):
            migrate(source, target, [keys[0]])
            assert await _call(connection, "GET", keys[0]) == b"1"
            assert await _call(connection, "SET", keys[1], "2") == b"OK"
            together = [("INCRBY", keys[0], "1"), ("WAIT", "0", "10")]
            answers = connection.call_together(together)
            assert (await answers if kind is ReconnectingConnection else answers)[0] == 2  # type: ignore[misc]
            assert [await _call(connection, "DEL", key) for key in keys] == [1, 1]
        connection.close()
        if isinstance(connection, ReconnectingConnection):
            await connection.wait_closed()


async def _call(connection: ReconnectingConnection | SyncReconnectingConnection, *command: str | bytes) -> object:
    answer = connection.call(*command)
    return await answer if isinstance(connection, ReconnectingConnection) else answer


async def test_a_cluster_is_not_taken_for_a_single_engine_nor_a_single_engine_for_a_cluster(
    cluster: ClusterProcesses,
) -> None:
    single = new_store(f"redis://127.0.0.1:{cluster.nodes[0].port}")
    with pytest.raises(EngineUnsuitable, match=r"redis\+cluster://"):
        single.open_sync()
    single.close_sync()
    with Node(tcp=True) as engine:
        several = new_store(f"redis+cluster://127.0.0.1:{engine.port}")
        with pytest.raises(EngineUnsuitable, match="not a node of a cluster"):
            several.open_sync()
        several.close_sync()
