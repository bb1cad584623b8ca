"""A real cluster: nodes die, hand over, and exchange slots while jobs flow."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time

import pytest

from tests.topologies.conftest import new_store
from tests.topologies.living import QUEUES, live_through, wait_for_one
from tests.topologies.nodes import ClusterNode, ClusterProcesses, Node, until
from windlass.background.janitor import Janitor
from windlass.core.errors import EngineUnsuitable, PartitionStopped
from windlass.core.job import NewJob
from windlass.core.operations import Finish, Take
from windlass.core.partition import hash_tags, slot_of
from windlass.service import Service
from windlass.store.connection.endpoint import ClusterSeeds, parse_url
from windlass.store.connection.reconnect import ReconnectingConnection, SyncReconnectingConnection
from windlass.store.store import Store
from windlass.store.topology.cluster import Cluster

pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("cluster")]
HOME = 5  # a partition that is moved about


def queue_in(store: Store, partition: int) -> str:
    return next(f"x{number}" for number in range(1_000) if store.partition_of_queue(f"x{number}") == partition)


async def test_a_killed_primary_loses_nothing_that_a_replica_has(cluster: ClusterProcesses) -> None:
    async def kill() -> None:
        victim = cluster.primary_of_partition(0)
        heir = cluster.replica_of(victim)
        victim.kill()
        await asyncio.to_thread(until, lambda: heir.is_primary, "the replica takes over")
        victim.start()  # without it the heir has nobody to confirm

    witness = await live_through(new_store(cluster.url), kill, durability="replica")
    witness.judge(at_least=100, may_run_again=True)


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
        assert all(before[one] > killed_at_s - 0.2 for one in lost), "older than the replication's lag"
        assert len(found) > len(before) / 2


async def test_a_planned_failover_loses_nothing(cluster: ClusterProcesses) -> None:
    async def hand_over() -> None:
        for primary in cluster.primaries:
            replica = cluster.replica_of(primary)
            replica.ask("CLUSTER", "FAILOVER")
            await asyncio.to_thread(until, lambda replica=replica: replica.is_primary, "the replica takes over")

    with cluster.patient():
        (await live_through(new_store(cluster.url), hand_over)).judge(at_least=100)


async def test_waiting_takers_outlive_a_failover(cluster: ClusterProcesses) -> None:
    store = new_store(cluster.url)
    service = Service(store)
    async with store, asyncio.timeout(30):
        victim = cluster.primary_of_partition(0)
        theirs = [queue for queue in QUEUES if cluster.primary_of_partition(store.partition_of_queue(queue)) is victim]
        several = asyncio.create_task(wait_for_one(service, QUEUES))
        alone = asyncio.create_task(wait_for_one(service, ("{0}alone",)))
        await asyncio.to_thread(until, lambda: _waiting(service, (*QUEUES, "{0}alone")) == 25, "both wait")
        victim.kill()
        ids = {(await service.enqueue([NewJob(queue=queue, name="n")]).one()).id for queue in ("{0}alone", theirs[0])}
        assert {await several, await alone} == ids


def _waiting(service: Service, queues: tuple[str, ...]) -> int:
    return sum(stats.waiting_takers for stats in service.stats(queues).wait())


async def test_slots_move_atomically_while_jobs_flow(cluster: ClusterProcesses) -> None:
    slot = slot_of(hash_tags(16)[HOME])

    async def move() -> None:
        source = cluster.primary_of(slot)
        target = next(node for node in cluster.primaries if node is not source)
        for node, other in ((source, target), (target, source)):
            node.ask("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", other.id)
            await asyncio.to_thread(until, lambda other=other: cluster.primary_of(slot) is other, "the slot has moved")

    with cluster.patient():
        (await live_through(new_store(cluster.url), move)).judge(at_least=100)


@contextlib.contextmanager
def torn(cluster: ClusterProcesses, slot: int):  # type: ignore[no-untyped-def]
    """The slot is on its way from one node to another, key by key; at the end it is whole again, where it was."""
    source = cluster.primary_of(slot)
    target = next(node for node in cluster.primaries if node is not source)
    target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
    source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)
    try:
        yield source, target
    finally:
        for node in (source, target):
            node.ask("CLUSTER", "SETSLOT", slot, "STABLE")


def migrate(source: ClusterNode, target: ClusterNode, slot: int, keys: list[bytes]) -> None:
    if keys:
        source.ask("MIGRATE", "127.0.0.1", target.port, "", 0, 5_000, "KEYS", *keys)


async def test_takers_keep_off_a_slot_that_moves_key_by_key_and_go_on_afterwards(
    cluster: ClusterProcesses, caplog: pytest.LogCaptureFixture
) -> None:
    store = new_store(cluster.url)
    service, janitor = Service(store), Janitor()
    async with store, asyncio.timeout(30):
        queue = queue_in(store, HOME)
        job = await service.enqueue([NewJob(queue=queue, name="n")]).one()
        await janitor.tick(service)
        assert len((await service.take(Take(queues=(queue,)))).jobs) == 1
        await service.requeue([job.id])
        with torn(cluster, slot_of(hash_tags(16)[HOME])):
            assert await service.stop_torn() == [HOME]
            with pytest.raises(PartitionStopped, match="key by key"):
                await service.take(Take(queues=(queue,)))
            assert (await service.finish_and_take([], [], Take(queues=(queue,)))).taken.jobs == []
            with caplog.at_level(logging.WARNING, "windlass.store"):
                assert (await service.take(Take(queues=(queue,), wait_ms=300))).jobs == []
            assert "key by key" in caplog.text
            elsewhere = next(name for name in QUEUES if store.partition_of_queue(name) != HOME)
            other = await service.enqueue([NewJob(queue=elsewhere, name="n")]).one()
            taken = (await service.take(Take(queues=(queue, elsewhere), most=2))).jobs
            assert [one.id for one in taken] == [other.id], "the other partitions are taken from"
        assert await service.stop_torn([HOME]) == []
        assert [one.id for one in (await service.take(Take(queues=(queue,)))).jobs] == [job.id]


async def test_doctor_sees_a_slot_that_moves_key_by_key_and_stops_its_takers(cluster: ClusterProcesses) -> None:
    store = new_store(cluster.url)
    service = Service(store)
    async with store, asyncio.timeout(60):
        queue = queue_in(store, HOME)
        await service.enqueue([NewJob(queue=queue, name="n")])
        assert "slot_torn" not in {one.code for one in (await service.doctor()).findings}
        with torn(cluster, slot_of(hash_tags(16)[HOME])):
            (found,) = [one for one in (await service.doctor(repair=True)).findings if one.code == "slot_torn"]
            assert found.examples == (f"partition {HOME}",)
            with pytest.raises(PartitionStopped, match="key by key"):
                await service.take(Take(queues=(queue,)))
        await service.stop_torn([HOME])
        assert len((await service.take(Take(queues=(queue,)))).jobs) == 1
        diagnosis = await service.doctor()
        assert diagnosis.is_healthy, diagnosis.findings


async def test_a_stop_ends_by_itself(cluster: ClusterProcesses) -> None:
    store = new_store(cluster.url)
    service = Service(store)
    async with store, asyncio.timeout(30):
        queue = queue_in(store, HOME)
        await service.enqueue([NewJob(queue=queue, name="n")])
        with torn(cluster, slot_of(hash_tags(16)[HOME])):
            await service.stop_torn()
        store.clock_offset_ms += 180_001
        assert len((await service.take(Take(queues=(queue,)))).jobs) == 1


async def test_a_slot_that_is_moved_key_by_key_to_the_end_is_found_again(cluster: ClusterProcesses) -> None:
    """With its takers stopped, nothing is lost: calls follow the root to its new node."""
    store = new_store(cluster.url)
    service = Service(store)
    slot = slot_of(hash_tags(16)[HOME])
    async with store, asyncio.timeout(30):
        queue = queue_in(store, HOME)
        job = await service.enqueue([NewJob(queue=queue, name="n")]).one()
        for _ in range(2):  # there, and back
            with torn(cluster, slot) as (source, target):
                await service.stop_torn()
                while keys := source.ask("CLUSTER", "GETKEYSINSLOT", slot, 100):
                    migrate(source, target, slot, keys)
                target.ask("FUNCTION", "FLUSH")  # a node that never had a partition of ours has no library
                with pytest.raises(PartitionStopped):
                    await service.take(Take(queues=(queue,)))
                with pytest.raises(PartitionStopped):
                    service.take(Take(queues=(queue,))).wait()
                for node in (target, source):
                    node.ask("CLUSTER", "SETSLOT", slot, "NODE", target.id)
            await asyncio.to_thread(until, lambda t=target: cluster.primary_of(slot) is t, "the slot has moved")
            assert await service.stop_torn([HOME]) == []
            (taken,) = (await service.take(Take(queues=(queue,)))).jobs
            assert taken.id == job.id
            await service.requeue([job.id])
        (taken,) = (await service.take(Take(queues=(queue,)))).jobs
        assert await service.finish([Finish(taken.id, taken.lease_token)]) == [None]


async def test_calls_wait_until_a_torn_slot_is_whole(cluster: ClusterProcesses) -> None:
    """Scripts cannot run where keys may be missing; nobody is told no for it."""
    store = new_store(cluster.url)
    service = Service(store)
    async with store, asyncio.timeout(30):
        queue = queue_in(store, HOME)
        await service.enqueue([NewJob(queue=queue, name="n")])
        with torn(cluster, slot_of(hash_tags(16)[HOME])):
            late = asyncio.create_task(_enqueue(service, queue))
            done, _ = await asyncio.wait({late}, timeout=0.3)
            assert not done
        await late
        assert [job.name for job in (await service.take(Take(queues=(queue,), most=5))).jobs] == ["n", "late"]


async def _enqueue(service: Service, queue: str) -> None:
    await service.enqueue([NewJob(queue=queue, name="late")]).one()


async def test_redirections_are_followed(cluster: ClusterProcesses) -> None:
    """MOVED: from a map that is wrong. ASK: keys that are already at the other node."""
    addresses = parse_url(cluster.url)
    assert isinstance(addresses, ClusterSeeds)
    slot = slot_of("redirected")
    keys = [f"{{redirected}}{number}".encode() for number in range(2)]
    wrong = next(node for node in cluster.primaries if node is not cluster.primary_of(slot))
    for kind in (ReconnectingConnection, SyncReconnectingConnection):
        known = Cluster(addresses)
        known.refresh_sync()
        known.redirect_slot(slot, wrong.endpoint)
        link = kind(known.route(slot), patience_s=5.0)
        assert await _called(link, "SET", keys[0], "1") == b"OK"
        assert known.primary_of(slot) == cluster.primary_of(slot).endpoint, "the map was corrected"
        with torn(cluster, slot) as (source, target):
            migrate(source, target, slot, [keys[0]])
            assert await _called(link, "GET", keys[0]) == b"1"
            assert await _called(link, "SET", keys[1], "2") == b"OK"
            together = [("INCRBY", keys[0], "1"), ("WAIT", "0", "10")]
            answers = link.call_together(together)
            assert (await answers if kind is ReconnectingConnection else answers)[0] == 2  # type: ignore[misc]
            assert [await _called(link, "DEL", key) for key in keys] == [1, 1]
        link.close()
        if isinstance(link, ReconnectingConnection):
            await link.wait_closed()


async def _called(link: ReconnectingConnection | SyncReconnectingConnection, *command: str | bytes) -> object:
    answer = link.call(*command)
    return await answer if isinstance(link, ReconnectingConnection) else answer


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
