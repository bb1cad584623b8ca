"""Background loops: each can run once and returns when it must run next; together they wake up for earlier work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from tests.support.namespace import send_command
from windlass.background import runner
from windlass.background.janitor import Janitor
from windlass.background.recoverer import GRACE_S, LOOK_AGAIN_MS, LOOKS_APART_S, Recoverer
from windlass.background.scheduler import Scheduler
from windlass.core.job import NewJob
from windlass.core.operations import Take, WorkerInfo
from windlass.core.scheduling.schedule import Schedule
from windlass.service import Service
from windlass.store.store import Store

pytestmark = pytest.mark.anyio
DEAD, LIVE = b"d" * 16, b"l" * 16


async def test_the_scheduler_says_when_the_next_job_is_due(service: Service, store: Store) -> None:
    async with store:
        idle = await Scheduler().tick(service)
        assert (idle.done, idle.next_at_ms) == (0, None)
        await service.enqueue([NewJob(queue="q", name="n", delay_ms=10_000)])
        before = await Scheduler().tick(service)
        assert before.done == 0
        assert before.next_at_ms is not None
        assert 0 < before.next_at_ms - before.now_ms <= 10_000
        store.clock_offset_ms += 10_000
        assert (await Scheduler().tick(service)).done == 1
        assert (await service.stats(["q"]))[0].queued == 1


async def test_the_recoverer_says_when_the_next_lease_ends(service: Service, store: Store) -> None:
    async with store:
        await service.enqueue([NewJob(queue="q", name="n")])
        await service.take(Take(queues=("q",), lease_ms=5_000))
        before = await Recoverer().tick(service)
        assert before.next_at_ms is not None
        assert 0 < before.next_at_ms - before.now_ms <= 5_000
        store.clock_offset_ms += 5_000
        assert (await Recoverer().tick(service)).done == 1
        assert (await Recoverer().tick(service)).next_at_ms is None


async def test_a_silent_worker_loses_its_jobs_at_the_second_look(service: Service, store: Store) -> None:
    """An engine that was away makes all workers silent: their heartbeats come between the two looks."""
    now_s = 0.0
    async with store:
        for worker in (DEAD, LIVE):
            await service.register(worker, WorkerInfo(), beat_ms=9_000)
            await service.enqueue([NewJob(queue="q", name="n")])
            await service.take(Take(queues=("q",), worker=worker, lease_ms=600_000))
        recoverer = Recoverer(lambda: now_s)
        assert (await recoverer.tick(service)).done == 0
        now_s += 60
        store.clock_offset_ms += 60_000
        seen = await recoverer.tick(service)
        assert (seen.done, seen.next_at_ms) == (0, seen.now_ms + LOOK_AGAIN_MS)
        await service.beat([LIVE])
        now_s += GRACE_S - 0.1
        assert (await recoverer.tick(service)).done == 0
        now_s += 0.1
        assert (await recoverer.tick(service)).done == 1
        assert [worker.id for worker in await service.workers()] == [LIVE]


async def test_every_worker_of_a_dead_host_is_noticed_in_its_turn(service: Service, store: Store) -> None:
    """Looks that follow each other closely take no place from each other."""
    now_s, noticed = 0.0, dict[int, float]()
    async with store:
        for number in range(4):
            await service.register(bytes([number + 1]) * 16, WorkerInfo(), beat_ms=1_000 * (number + 1))
        recoverer = Recoverer(lambda: now_s)
        while len(noticed) < 4:
            await recoverer.tick(service)
            while len(noticed) < 4 - len(await service.workers()):
                noticed[len(noticed)] = now_s
            now_s += 0.02
            store.clock_offset_ms += 20
        for number, at_s in noticed.items():
            assert number + 1 + GRACE_S - 0.1 <= at_s <= number + 1 + GRACE_S + 2 * LOOKS_APART_S, noticed


async def test_the_janitor_cleans_and_forgets_empty_queues(service: Service, store: Store) -> None:
    async with store:
        janitor = Janitor()
        await service.enqueue([NewJob(queue="q", name="n", expires_in_ms=1_000)])
        assert (await janitor.tick(service)).done == 0
        store.clock_offset_ms += 1_000
        assert (await janitor.tick(service)).done == 1
        assert (await service.stats(["q"]))[0].failed == 1
        store.clock_offset_ms += 15 * 86_400_000
        assert (await janitor.tick(service)).done == 2  # the failed job, and the queue behind it
        assert await service.queues() == []


async def test_a_turn_pauses_until_the_earliest_of_all(service: Service, store: Store) -> None:
    async with store:
        assert await runner.turn(service, runner.all_loops()) == runner.LONGEST_PAUSE_S
        await service.enqueue([NewJob(queue="q", name="n", delay_ms=20_000)])
        assert 15 < await runner.turn(service, runner.all_loops()) <= 20


async def test_running_loops_wake_for_what_is_due_earlier_than_they_knew(service: Service, store: Store) -> None:
    """There is no taker: only the loops can move these jobs, and they sleep for a minute when idle."""
    async with store, asyncio.timeout(20):
        loops = asyncio.create_task(runner.run(service))
        await asyncio.to_thread(_until, lambda: service.stats(["q"]).wait()[0].queued == 0)
        await service.enqueue([NewJob(queue="q", name="n", delay_ms=200)])
        await asyncio.to_thread(_until, lambda: service.stats(["q"]).wait()[0].queued == 1)
        taken = await service.take(Take(queues=("q",), lease_ms=200))
        assert len(taken.jobs) == 1
        await asyncio.to_thread(_until, lambda: service.stats(["q"]).wait()[0].queued == 1)
        loops.cancel()
        await asyncio.wait({loops})


async def test_the_scheduler_fires_and_says_when_the_next_occurrence_is(service: Service, store: Store) -> None:
    async with store:
        await service.schedule(Schedule(name="s", job=NewJob(queue="q", name="n"), every_ms=10_000))
        before = await Scheduler().tick(service)
        assert before.done == 0
        assert before.next_at_ms is not None
        assert 0 < before.next_at_ms - before.now_ms <= 10_000
        store.clock_offset_ms += 10_000
        assert (await Scheduler().tick(service)).done == 1
        after = await Scheduler().tick(service)
        assert after.next_at_ms == before.next_at_ms + 10_000
        await service.pause_schedule("s")
        assert (await Scheduler().tick(service)).next_at_ms is None


async def test_running_loops_wake_for_a_schedule_they_did_not_know(service: Service, store: Store) -> None:
    """Idle loops sleep for a minute; a new or resumed schedule wakes them."""
    async with store, asyncio.timeout(20):
        loops = asyncio.create_task(runner.run(service))
        await _until_listening(store)
        await service.schedule(Schedule(name="s", job=NewJob(queue="q", name="n"), every_ms=1_000))
        await asyncio.to_thread(_until, lambda: service.stats(["q"]).wait()[0].queued >= 2)
        await service.pause_schedule("s")
        made = (await service.schedule_of("s")).fired
        await _until_listening(store)
        await service.resume_schedule("s")
        await asyncio.to_thread(_until, lambda: service.stats(["q"]).wait()[0].queued > made)
        loops.cancel()
        await asyncio.wait({loops})


async def test_a_waiting_taker_gets_the_job_of_an_occurrence(service: Service, store: Store) -> None:
    async with store, asyncio.timeout(20):
        loops = asyncio.create_task(runner.run(service))
        taking = asyncio.ensure_future(service.take(Take(queues=("q",), wait_ms=15_000)))
        await service.schedule(Schedule(name="s", job=NewJob(queue="q", name="n"), every_ms=1_000))
        (job,) = (await taking).jobs
        assert job.schedule == "s"
        assert job.started_at_ms is not None
        assert job.planned_at_ms is not None
        assert job.started_at_ms - job.planned_at_ms < 500
        loops.cancel()
        await asyncio.wait({loops})


async def test_an_engine_that_is_full_stops_only_the_schedules(service: Service, store: Store) -> None:
    async with store:
        await service.schedule(Schedule(name="s", job=NewJob(queue="q", name="n"), every_ms=1_000))
        await service.enqueue([NewJob(queue="q", name="n", delay_ms=500)])
        store.clock_offset_ms += 2_000
        await asyncio.to_thread(send_command, store, "CONFIG", "SET", "maxmemory", "1")
        try:
            tick = await Scheduler().tick(service)
        finally:
            await asyncio.to_thread(send_command, store, "CONFIG", "SET", "maxmemory", "0")
        assert tick.done == 1
        assert (await service.stats(["q"]))[0].queued == 1
        assert (await Scheduler().tick(service)).done == 2


async def test_ten_processes_running_the_loops_recover_a_job_once(service: Service, store: Store) -> None:
    async with store:
        await service.enqueue([NewJob(queue="q", name="n") for _ in range(50)])
        await service.take(Take(queues=("q",), most=50, lease_ms=1_000))
        store.clock_offset_ms += 1_000
        turns = await asyncio.gather(*(Recoverer().tick(service) for _ in range(10)))
        assert sum(tick.done for tick in turns) == 50
        jobs = (await service.take(Take(queues=("q",), most=100))).jobs
        assert [job.attempt for job in jobs] == [2] * 50
        assert [job.sequence for job in jobs] == sorted(job.sequence for job in jobs)


async def _until_listening(store: Store) -> None:
    while not await asyncio.to_thread(send_command, store, "EXISTS", f"{store.root(0)}:waiters:"):  # noqa: ASYNC110 (the engine's news)
        await asyncio.sleep(0.002)


def _until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        time.sleep(0.01)
