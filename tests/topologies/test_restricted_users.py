"""`windlass engine prepare` and users without the right to load functions, on a cluster and behind Sentinel."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import pytest

from tests.support.acl_user import PASSWORD, USER, wait_until
from tests.support.console import run_with_settings
from tests.topologies.conftest import new_store
from tests.topologies.nodes import ClusterProcesses, Node, SentinelProcesses, until
from tests.topologies.slot_moves import PARTITION, end_move, migrating, move_keys, queue_in
from tests.topologies.workload import run_through
from windlass.core.errors import EngineNotPermitted, PartitionStopped
from windlass.core.job import NewJob
from windlass.core.operations import Take
from windlass.core.partition import hash_tags, slot_of
from windlass.service import Service
from windlass.store.scripts import library
from windlass.store.topology.permissions import acl_rules

pytestmark = pytest.mark.anyio
QUEUES = [f"q{number}" for number in range(40)]


def allow(nodes: Sequence[Node], rules: Sequence[str], *more: str) -> None:
    for node in nodes:
        node.send_command("ACL", "SETUSER", USER, "reset", "on", f">{PASSWORD}", *rules, *more)
        if node.is_primary:
            node.send_command("FUNCTION", "FLUSH")


def forget(nodes: Sequence[Node]) -> None:
    for node in nodes:
        node.send_command("ACL", "DELUSER", USER)


def libraries(node: Node) -> str:
    return str(node.send_command("FUNCTION", "LIST"))


def as_user(url: str) -> str:
    """Return the URL of the same nodes for the restricted user."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{USER}:{PASSWORD}@{rest.rpartition('@')[2]}"


@pytest.fixture
def open_cluster(cluster: ClusterProcesses) -> Iterator[ClusterProcesses]:
    yield cluster
    forget(cluster.nodes)


@pytest.mark.xdist_group("cluster")
async def test_every_primary_of_a_cluster_is_prepared(open_cluster: ClusterProcesses) -> None:
    allow(open_cluster.nodes, acl_rules("r", is_cluster=True))
    url = as_user(open_cluster.url)
    with pytest.raises(EngineNotPermitted, match="windlass engine prepare"):
        new_store(url, namespace="r").open_sync()

    done = run_with_settings("engine", "prepare", "--namespace", "r", "--url", open_cluster.url)
    assert done.code == 0
    assert done.out.count(f"function library {library().name} loaded.") == len(open_cluster.primaries) == 3
    assert all(library().name in libraries(node) for node in open_cluster.primaries)
    assert done.out.splitlines()[-1].endswith(" ".join(acl_rules("r", is_cluster=True)))

    async with new_store(url, namespace="r") as store:
        service = Service(store)
        await service.enqueue([NewJob(queue=queue, name="n") for queue in QUEUES])
        assert len((await service.take(Take(queues=tuple(QUEUES[:16]), most=16))).jobs) == 16
        assert (await service.doctor()).is_healthy


@pytest.mark.xdist_group("cluster")
@pytest.mark.parametrize(("right", "spoken"), [("cluster|slots", "CLUSTER SLOTS"), ("asking", "ASKING")])
async def test_a_right_that_only_a_cluster_needs(open_cluster: ClusterProcesses, right: str, spoken: str) -> None:
    allow(open_cluster.nodes, acl_rules("r", is_cluster=True), f"-{right}")
    with pytest.raises(EngineNotPermitted, match=f"may not call {spoken} \\(needed to"):
        new_store(as_user(open_cluster.url), namespace="r").open_sync()


@pytest.fixture
def scripts_cluster(open_cluster: ClusterProcesses) -> str:
    """URL of a cluster for a user that may call scripts only."""
    allow(open_cluster.nodes, acl_rules("r", is_cluster=True, calls_by="scripts"))
    return as_user(open_cluster.url)


@pytest.mark.xdist_group("cluster")
async def test_a_cluster_is_used_by_scripts_alone(open_cluster: ClusterProcesses, scripts_cluster: str) -> None:
    async with new_store(scripts_cluster, namespace="r") as store:
        assert store.calls_by == "scripts"
        service = Service(store)
        await service.enqueue([NewJob(queue=queue, name="n") for queue in QUEUES])
        for node in open_cluster.primaries:
            node.send_command("SCRIPT", "FLUSH", "SYNC")
        assert len((await service.take(Take(queues=tuple(QUEUES[:16]), most=16))).jobs) == 16
        assert (await service.doctor()).is_healthy


@pytest.mark.xdist_group("cluster")
async def test_scripts_follow_a_slot_that_moves_key_by_key(
    open_cluster: ClusterProcesses, scripts_cluster: str
) -> None:
    """The node that the engine names for one call (ASK) has no script yet."""
    store = new_store(scripts_cluster, namespace="r")
    service = Service(store)
    slot = slot_of(hash_tags(16)[PARTITION])
    async with store, asyncio.timeout(30):
        queue = queue_in(store, PARTITION)
        await service.enqueue([NewJob(queue=queue, name="n")])
        for _ in range(2):  # there, and back
            with migrating(open_cluster, slot) as (source, target):
                await service.stop_torn()
                move_keys(source, target, slot)
                target.send_command("SCRIPT", "FLUSH", "SYNC")
                with pytest.raises(PartitionStopped):
                    await service.take(Take(queues=(queue,)))
                target.send_command("SCRIPT", "FLUSH", "SYNC")
                with pytest.raises(PartitionStopped):
                    service.take(Take(queues=(queue,))).wait()
                end_move(source, target, slot)
            await asyncio.to_thread(until, lambda t=target: open_cluster.primary_of(slot) is t, "the slot has moved")
            assert await service.stop_torn([PARTITION]) == []
        assert len((await service.take(Take(queues=(queue,)))).jobs) == 1


@pytest.mark.xdist_group("sentinel")
async def test_scripts_are_loaded_again_after_a_failover(sentinels: SentinelProcesses) -> None:
    allow(sentinels.nodes, acl_rules("r", is_sentinel=True, calls_by="scripts"))

    async def kill() -> None:
        await asyncio.to_thread(sentinels.primary.kill)

    try:
        store = new_store(as_user(sentinels.url), namespace="r")
        (await run_through(store, kill, durability="replica")).check(at_least=100, may_run_again=True)
        assert store.calls_by == "scripts"
    finally:
        sentinels.restore()
        forget(sentinels.nodes)


@pytest.mark.xdist_group("sentinel")
async def test_the_primary_that_sentinels_name_is_prepared(sentinels: SentinelProcesses) -> None:
    allow(sentinels.nodes, acl_rules("r", is_sentinel=True))
    url = as_user(sentinels.url)
    try:
        with pytest.raises(EngineNotPermitted, match="windlass engine prepare"):
            new_store(url, namespace="r").open_sync()
        done = run_with_settings("engine", "prepare", "--namespace", "r", "--url", sentinels.url)
        assert done.code == 0
        assert library().name in libraries(sentinels.primary)
        async with new_store(url, namespace="r") as store:
            assert len(await Service(store).enqueue([NewJob(queue="q", name="n")])) == 1
        allow(sentinels.nodes, acl_rules("r", is_sentinel=True), "-role")
        with pytest.raises(EngineNotPermitted, match="may not call ROLE"):
            new_store(url, namespace="r").open_sync()
    finally:
        forget(sentinels.nodes)


@pytest.mark.xdist_group("sentinel")
async def test_sentinels_that_announce_nothing(sentinels: SentinelProcesses, caplog: pytest.LogCaptureFixture) -> None:
    for node in sentinels.sentinels:
        node.send_command("ACL", "SETUSER", USER, "on", f">{PASSWORD}", "+@all", "-subscribe")
    options = f"sentinel_username={USER}&sentinel_password={PASSWORD}"
    try:
        async with new_store(f"{sentinels.url.partition('?')[0]}?{options}") as store:
            assert len(await Service(store).enqueue([NewJob(queue="q", name="n")])) == 1
            await wait_until(
                lambda: "Cannot subscribe to the sentinels' announcements" in caplog.text, "the log says so"
            )
        assert "may not call SUBSCRIBE" in caplog.text
        assert caplog.text.count("Cannot subscribe to the sentinels' announcements") == 1
    finally:
        for node in sentinels.sentinels:
            node.send_command("ACL", "DELUSER", USER)
