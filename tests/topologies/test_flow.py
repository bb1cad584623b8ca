"""The same operations over several partitions on one engine, behind sentinels, and on a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.support.engine_process import EngineProcess
from tests.topologies.conftest import new_store
from tests.topologies.nodes import until
from tests.topologies.workload import QUEUES
from windlass.background import runner
from windlass.core.errors import BadInput, CrossPartition, UnknownWorker
from windlass.core.job import Blob, Job, NewJob
from windlass.core.operations import Fail, Finish, LeaseRef, Listing, Page, Take, Taken, WorkerInfo
from windlass.service import Service
from windlass.store.store import Store

pytestmark = pytest.mark.anyio
WORKER = b"w" * 16


@pytest.fixture(scope="session")
def lone_engine() -> Iterator[EngineProcess]:
    with EngineProcess() as process:
        yield process


@pytest.fixture(
    params=[
        pytest.param("standalone", marks=pytest.mark.xdist_group("sentinel")),
        pytest.param("sentinel", marks=pytest.mark.xdist_group("sentinel")),
        pytest.param("cluster", marks=pytest.mark.xdist_group("cluster")),
    ]
)
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    if request.param == "cluster":
        store = new_store(request.getfixturevalue("cluster").url)
    elif request.param == "sentinel":
        store = new_store(request.getfixturevalue("sentinels").url, partitions=4)
    else:
        store = new_store(request.getfixturevalue("lone_engine").unix_url, partitions=7)
    yield store
    store.close_sync()


@pytest.fixture
def service(store: Store) -> Service:
    return Service(store)


def everywhere(**options: object) -> list[NewJob]:
    return [NewJob(queue=queue, name="n", **options) for queue in QUEUES]  # type: ignore[arg-type]


def held(jobs: list[Job]) -> list[LeaseRef]:
    return [LeaseRef(job.id, job.lease_token) for job in jobs]


async def test_jobs_flow_without_an_event_loop(service: Service, store: Store) -> None:
    ids = [answer.id for answer in service.enqueue(everywhere()).wait()]  # type: ignore[union-attr]
    assert store.partitions > 1
    assert {store.partition_of_job(job_id) for job_id in ids} == {store.partition_of_queue(queue) for queue in QUEUES}
    some = service.take(Take(queues=QUEUES, most=10, wait_ms=1_000)).wait().jobs
    assert len(some) == 10
    done = [Finish(job.id, job.lease_token, Blob(b"1")) for job in some[:5]]
    bad = [Fail(id=job.id, token=job.lease_token, then="retry", delay_ms=60_000) for job in some[5:]]
    answer = service.finish_and_take(done, bad, Take(queues=QUEUES, most=100)).wait()
    assert answer.finished == [None] * 5
    assert answer.failed == ["retried"] * 5
    assert len(answer.taken.jobs) == 14
    assert {job.id for job in (*some, *answer.taken.jobs)} == set(ids)
    assert service.finish([Finish(job.id, job.lease_token) for job in answer.taken.jobs]).wait() == [None] * 14
    store.clock_offset_ms += 60_000
    again = service.take(Take(queues=QUEUES, most=100, wait_ms=1_000)).wait().jobs
    assert sorted(job.attempt for job in again) == [2] * 5
    assert service.take(Take(queues=QUEUES, most=100, wait_ms=50)).wait().jobs == []


async def test_order_holds_within_a_partition(service: Service, store: Store) -> None:
    async with store:
        queues = ("{t}one", "{t}two")
        jobs = [NewJob(queue=queues[number % 2], name=str(number)) for number in range(20)]
        await service.enqueue(jobs)
        taken = (await service.take(Take(queues=(queues[1], queues[0], *QUEUES), most=20))).jobs
        assert [int(job.name) for job in taken] == [*range(1, 20, 2), *range(0, 20, 2)]


async def test_a_waiting_taker_is_woken_from_any_partition(service: Service, store: Store) -> None:
    async with store, asyncio.timeout(20):
        for queue in QUEUES[:6]:
            waiting = asyncio.create_task(_taken(service))
            await asyncio.to_thread(
                until,
                lambda: sum(stats.waiting_takers for stats in service.stats(QUEUES).wait()) == len(QUEUES),
                "it waits",
            )
            job = await service.enqueue([NewJob(queue=queue, name="n")]).one()
            (taken,) = (await waiting).jobs
            assert taken.id == job.id
            await asyncio.to_thread(
                until, lambda: sum(stats.waiting_takers for stats in service.stats(QUEUES).wait()) == 0, "it left"
            )


async def _taken(service: Service) -> Taken:
    return await service.take(Take(queues=QUEUES, wait_ms=20_000))


async def test_a_blocking_taker_is_woken_from_any_partition(service: Service, store: Store) -> None:
    async with store, asyncio.timeout(20):
        waiting = asyncio.create_task(asyncio.to_thread(service.take(Take(queues=QUEUES, wait_ms=20_000)).wait))
        await asyncio.to_thread(
            until,
            lambda: sum(stats.waiting_takers for stats in service.stats(QUEUES).wait()) == len(QUEUES),
            "it waits",
        )
        job = await service.enqueue([NewJob(queue=QUEUES[3], name="n")]).one()
        assert [taken.id for taken in (await waiting).jobs] == [job.id]


async def test_a_cancelled_taker_releases_jobs_of_all_partitions(service: Service, store: Store) -> None:
    async with store, asyncio.timeout(20):
        await service.enqueue(everywhere())
        for _ in range(20):
            taking = asyncio.ensure_future(_take_all(service))
            await asyncio.sleep(0.001)
            taking.cancel()
            await asyncio.wait({taking})
        await asyncio.wait(store._background or {asyncio.create_task(asyncio.sleep(0))})
        assert len((await _take_all(service)).jobs) == len(QUEUES)


async def _take_all(service: Service) -> Taken:
    return await service.take(Take(queues=QUEUES, most=100, wait_ms=1))


async def test_the_loops_serve_every_partition(service: Service, store: Store) -> None:
    async with store, asyncio.timeout(20):
        await service.enqueue(everywhere())
        await service.take(Take(queues=QUEUES, most=100, lease_ms=300))
        loops = asyncio.create_task(runner.run(service))
        await service.enqueue(everywhere(delay_ms=100, expires_in_ms=86_400_000))
        await asyncio.to_thread(
            until,
            lambda: sum(stats.queued for stats in service.stats(QUEUES).wait()) == 2 * len(QUEUES),
            "all are queued",
        )
        loops.cancel()
        await asyncio.wait({loops})
        store.clock_offset_ms += 86_400_000
        assert (await service.clean()).done == len(QUEUES)
        await service.cancel([job.id for job in (await _page(service)).jobs])
        assert await service.queues() == sorted(QUEUES)
        store.clock_offset_ms += 30 * 86_400_000
        while (await service.clean()).done:
            pass
        cursor, forgotten = "0", 0
        while True:
            swept = await service.sweep(cursor)
            cursor, forgotten = swept.cursor, forgotten + swept.forgotten
            if cursor == "0":
                break
        assert forgotten + len(await service.queues()) == len(QUEUES)


async def _page(service: Service) -> Page:
    return await service.jobs(Listing(queue=QUEUES[0], state="queued"))


async def test_promote_and_recover_are_about_all_partitions(service: Service, store: Store) -> None:
    async with store:
        await service.enqueue(everywhere(delay_ms=1_000))
        assert (await service.promote()).done == 0
        step = await service.promote()
        assert step.next_at_ms is not None
        assert 0 < step.next_at_ms - step.now_ms <= 1_000
        store.clock_offset_ms += 1_000
        assert (await service.promote()).done == len(QUEUES)
        await service.take(Take(queues=QUEUES, most=100, lease_ms=1_000))
        store.clock_offset_ms += 1_000
        assert (await service.recover()).done == len(QUEUES)


async def test_pages_by_tag_go_over_all_partitions_with_one_cursor(service: Service, store: Store) -> None:
    async with store:
        ids = {answer.id for answer in await service.enqueue(everywhere(tags=("red",)))}  # type: ignore[union-attr]
        await service.enqueue([NewJob(queue=QUEUES[0], name="n", tags=("blue",))])
        found: list[bytes] = []
        cursor, pages = "", 0
        while True:
            page = await service.jobs(Listing(tag="red", most=2, cursor=cursor))
            found += [job.id for job in page.jobs]
            cursor, pages = page.cursor, pages + 1
            if not cursor:
                break
        assert len(found) == len(ids)
        assert set(found) == ids
        assert pages > len(ids) // 2 - 1
        for wrong in ("nonsense", "99:", ":", "x:abc"):
            with pytest.raises(BadInput, match="start again"):
                await service.jobs(Listing(tag="red", cursor=wrong))


async def test_workers_are_known_in_every_partition(service: Service, store: Store) -> None:
    heard: asyncio.Queue[bytes] = asyncio.Queue()
    async with store, asyncio.timeout(20):
        service.hear_cancels(heard.put_nowait)
        await service.register(WORKER, WorkerInfo(host="here"), beat_ms=1_000)
        await service.enqueue(everywhere())
        jobs = (await service.take(Take(queues=QUEUES, most=20, worker=WORKER))).jobs
        (worker,) = await service.workers()
        assert (worker.info.host, worker.running_count) == ("here", 20)
        assert {running.id for running in worker.running} == {job.id for job in jobs}
        assert await service.cancel([jobs[0].id, jobs[-1].id]) == ["requested"] * 2
        assert {await heard.get(), await heard.get()} == {jobs[0].id, jobs[-1].id}
        assert await service.beat([WORKER]) == [False]
        assert await service.release(held(jobs[5:])) == ["queued"] * 14 + ["cancelled"]
        store.clock_offset_ms += 1_001
        assert (await service.recover()).done == 5, "a silent worker loses its leases in all partitions"
        assert isinstance((await service.beat([WORKER]))[0], UnknownWorker)
        await service.register(WORKER, WorkerInfo())
        await service.take(Take(queues=QUEUES, most=7, worker=WORKER))
        assert await service.forget(WORKER) == 7
        with pytest.raises(UnknownWorker):
            await service.forget(WORKER)


async def test_an_id_of_another_partition_is_refused(service: Service, store: Store) -> None:
    async with store:
        homes = {store.partition_of_queue(queue): queue for queue in QUEUES}
        here, there = list(homes.values())[:2]
        with pytest.raises(CrossPartition):
            await service.enqueue([NewJob(queue=here, name="n", id=store.new_id(there))])


async def test_replica_durability_is_confirmed_by_each_node(
    service: Service, store: Store, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_replicas = "standalone" not in request.node.name
    if not has_replicas:
        monkeypatch.setattr("windlass.store.store.DURABLE_WAIT_MS", 200)
    async with store:
        answers = await asyncio.gather(
            *(service.enqueue([job], durability="replica").one() for job in everywhere()[:8])
        )
        assert {answer.is_durable for answer in answers} == {has_replicas}
