"""Lease holder: renewal, heartbeats, cancel requests, lost and unclaimed leases, and an engine that is away."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.background.lease_owner import RecordingOwner, ref
from tests.support.engine_process import EngineProcess
from tests.support.lossy_connection import LIMIT_S, SETTLED_MS, LossyConnection, open_lossy_connection
from windlass import __version__
from windlass.background import lease_holder
from windlass.background.lease_holder import LeaseHolder, lease_of
from windlass.core.errors import BadInput
from windlass.core.job import Job, NewJob
from windlass.core.operations import Take, WorkerInfo
from windlass.core.queue import FOREVER_MS
from windlass.core.states import State
from windlass.service import Service
from windlass.store.records.holder_ids import anonymous_holder
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

WORKER = b"w" * 16
LEASE_MS = 30_000
LONG_S = 3600.0
log = logging.getLogger("windlass.tests")


@pytest.fixture
async def opened(service: Service, store: Store) -> AsyncIterator[Service]:
    async with store, asyncio.timeout(LIMIT_S):
        yield service


@pytest.fixture
def lossy_connection(engine: EngineProcess) -> Iterator[LossyConnection]:
    with open_lossy_connection(engine) as found:
        yield found


@pytest.fixture
async def lossy(opened: Service, lossy_connection: LossyConnection) -> AsyncIterator[Service]:
    """In the namespace of `opened`, over a connection that can be cut. Its calls give up soon."""
    async with lossy_connection.store_like(opened.store, patience_s=0.2) as found:
        yield Service(found)


def make_holder(service: Service, owner: RecordingOwner, *, lease_ms: int = 0) -> LeaseHolder:
    return LeaseHolder(service, WORKER, WorkerInfo(), owner, log, lease_ms=lease_ms, beat_every_s=LONG_S)


def make_anonymous(service: Service, owner: RecordingOwner, holder_id: bytes) -> LeaseHolder:
    return LeaseHolder(service, holder_id, None, owner, log, beat_every_s=LONG_S)


async def take(service: Service, count: int = 1, *, holder: bytes = WORKER, lease_ms: int = LEASE_MS) -> list[Job]:
    await service.enqueue([NewJob(queue="q", name="n") for _ in range(count)])
    return (await service.take(Take(queues=("q",), most=count, worker=holder, lease_ms=lease_ms))).jobs


async def read(service: Service, job: Job) -> Job:
    return (await service.job([job.id]).one()).job


async def wait_for_log(caplog: pytest.LogCaptureFixture, text: str) -> None:
    while text not in caplog.text:  # noqa: ASYNC110 (a line of another task)
        await asyncio.sleep(0.01)


# Renewal


async def test_a_held_job_outlives_its_lease(opened: Service) -> None:
    held, dropped = await take(opened, 2)
    owner = RecordingOwner([held])
    holder = make_holder(opened, owner)
    await holder.register()
    for _ in range(3):
        opened.store.clock_offset_ms += LEASE_MS * 2 // 3
        await holder.beat()
        await opened.recover()
    assert (await read(opened, held)).state is State.RUNNING
    assert (await read(opened, dropped)).state is State.QUEUED
    assert owner.lost == []


async def test_the_end_of_a_fixed_lease_is_reported_without_another_heartbeat(opened: Service) -> None:
    await opened.configure("q", {"lease_renewal": False})
    (job,) = await take(opened, lease_ms=1_000)
    owner = RecordingOwner([job])
    holder = make_holder(opened, owner)
    await holder.register()
    await holder.beat()
    assert (owner.expired, owner.lost) == ([], [])
    await owner.has_news.wait()
    assert (owner.expired, owner.lost) == ([ref(job)], [])
    assert (await opened.now()) >= (job.lease_deadline_at_ms or 0)


async def test_a_fixed_lease_that_ended_or_is_renewed_again_is_not_reported(opened: Service) -> None:
    await opened.configure("q", {"lease_renewal": False})
    renewed, ended, lost, fixed = await take(opened, 4, lease_ms=3_000)
    owner = RecordingOwner([renewed, ended, lost, fixed])
    holder = make_holder(opened, owner)
    await holder.register()
    await holder.beat()
    owner.jobs.remove(ended)
    await opened.requeue([lost.id])
    await holder.beat()
    assert owner.lost == [ref(lost)]
    owner.jobs.remove(lost)
    await opened.configure("q", {"lease_renewal": True})
    holder._owner = RecordingOwner([renewed])
    await holder.beat()
    assert not holder._fixed_ends


async def test_leases_are_renewed_for_the_given_time(opened: Service) -> None:
    (job,) = await take(opened)
    before = (await read(opened, job)).lease_deadline_at_ms or 0
    holder = make_holder(opened, RecordingOwner([job]), lease_ms=LEASE_MS + 60_000)
    await holder.register()
    await holder.beat()
    assert (await read(opened, job)).lease_deadline_at_ms >= before + 60_000  # type: ignore[operator]


async def test_more_leases_than_one_call_renews(opened: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_holder, "BATCH", 2)
    jobs = await take(opened, 5)
    holder = make_holder(opened, RecordingOwner(jobs))
    await holder.register()
    opened.store.clock_offset_ms += LEASE_MS - 1_000
    await holder.beat()
    opened.store.clock_offset_ms += 2_000
    assert await opened.recover() is not None
    assert [(await read(opened, job)).state for job in jobs] == [State.RUNNING] * 5


async def test_a_worker_that_holds_jobs_may_be_silent_for_less(opened: Service) -> None:
    jobs = await take(opened)
    owner = RecordingOwner()
    holder = LeaseHolder(opened, WORKER, WorkerInfo(), owner, log, busy_beat_ms=9_000)

    async def patience_ms() -> int:
        (worker,) = await opened.workers()
        return worker.silent_at_ms - worker.beat_at_ms

    await holder.register()
    await holder.beat()
    assert (await patience_ms(), holder.beat_every_s, holder.is_idle) == (30_000, 10.0, True)
    turn = asyncio.create_task(holder.turn())
    await asyncio.sleep(0)
    owner.jobs = jobs
    holder.expect_busy()
    await turn  # after a second, and not after ten
    assert (await patience_ms(), holder.beat_every_s, holder.is_idle) == (9_000, 3.0, False)
    owner.jobs = []
    await holder.beat()
    assert (await patience_ms(), holder.beat_every_s, holder.is_idle) == (30_000, 10.0, True)


async def test_a_short_lease_wakes_a_holder_that_waits(opened: Service) -> None:
    owner = RecordingOwner()
    holder = make_holder(opened, owner)
    await holder.register()
    turn = asyncio.create_task(holder.turn())
    await asyncio.sleep(0)
    owner.jobs = await take(opened, lease_ms=600)
    holder.expect_lease(lease_of(owner.jobs[0]).lease_ms)
    await turn
    assert holder.beat_every_s == pytest.approx(0.2)
    owner.jobs.clear()
    await holder.turn()
    assert holder.beat_every_s == LONG_S


async def test_a_lease_without_end_needs_no_short_interval(opened: Service) -> None:
    (job,) = await take(opened, lease_ms=FOREVER_MS)
    holder = make_holder(opened, RecordingOwner([job]))
    await holder.register()
    holder.expect_lease(lease_of(job).lease_ms)
    await holder.beat()
    assert holder.beat_every_s == LONG_S


# Reports to the owner


async def test_a_lost_lease_is_reported(opened: Service) -> None:
    lost, kept = jobs = await take(opened, 2)
    owner = RecordingOwner(jobs)
    holder = make_holder(opened, owner)
    await holder.register()
    await opened.requeue([lost.id]).one()
    await holder.beat()
    assert owner.lost == [ref(lost)]
    assert (await read(opened, kept)).state is State.RUNNING


async def test_a_cancel_request_arrives_at_once(opened: Service) -> None:
    owner = RecordingOwner(await take(opened))
    await make_holder(opened, owner).register()
    assert await opened.cancel([owner.jobs[0].id]).one() == "requested"
    await owner.has_news.wait()
    assert owner.cancelled == [owner.jobs[0].id]


async def test_a_cancel_request_before_its_job_is_kept_until_the_next_heartbeat(opened: Service) -> None:
    owner = RecordingOwner()
    holder = make_holder(opened, owner)
    await holder.register()
    (job,) = await take(opened)
    await opened.cancel([job.id]).one()
    await owner.has_news.wait()
    assert list(holder.early_cancels) == [job.id]
    owner.jobs = [job]
    await holder.beat()
    assert (owner.cancelled, list(holder.early_cancels)) == ([job.id], [])


async def test_renewal_reports_a_cancel_request_to_a_holder_that_is_no_worker(opened: Service) -> None:
    holder_id = anonymous_holder()
    owner = RecordingOwner(await take(opened, holder=holder_id))
    holder = make_anonymous(opened, owner, holder_id)
    await holder.register()
    await opened.cancel([owner.jobs[0].id]).one()
    await holder.beat()
    assert owner.cancelled == [owner.jobs[0].id]
    assert await opened.workers() == []


@pytest.mark.parametrize("is_worker", [True, False])
async def test_a_lease_that_the_owner_does_not_know_is_reported(opened: Service, is_worker: bool) -> None:
    holder_id = WORKER if is_worker else anonymous_holder()
    known, unknown = await take(opened, 2, holder=holder_id)
    owner = RecordingOwner([known])
    holder = make_holder(opened, owner) if is_worker else make_anonymous(opened, owner, holder_id)
    await holder.register()
    opened.store.clock_offset_ms += SETTLED_MS
    await holder.beat()
    assert owner.unclaimed == [ref(unknown)]


async def test_a_request_to_stop_the_worker_is_reported(opened: Service) -> None:
    owner = RecordingOwner()
    holder = make_holder(opened, owner)
    await holder.register()
    await holder.beat()
    assert owner.stop_requests == 0
    await opened.stop_worker(WORKER)
    await holder.beat()
    assert owner.stop_requests == 1


# Registration


async def test_a_worker_that_the_engine_has_forgotten_registers_again(opened: Service) -> None:
    holder = make_holder(opened, RecordingOwner())
    await holder.register()
    await opened.forget(WORKER)
    assert await opened.workers() == []
    await holder.beat()
    assert [worker.id for worker in await opened.workers()] == [WORKER]


async def test_tells_about_its_process_and_updates_its_memory(opened: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    used = iter((50_000_000, 70_000_000))
    monkeypatch.setattr(lease_holder, "used_bytes", lambda pid: next(used) if pid == os.getpid() else 0)
    holder = make_holder(opened, RecordingOwner())
    await holder.register()
    [worker] = await opened.workers()
    described = (worker.info.version, worker.info.python, worker.info.memory_bytes)
    assert described == (__version__, platform.python_version(), 50_000_000)

    await holder.beat()  # too early for an update
    assert [worker.info.memory_bytes for worker in await opened.workers()] == [50_000_000]
    await opened.stop_worker(WORKER)
    monkeypatch.setattr(lease_holder, "DESCRIBE_EVERY_S", 0.0)
    await holder.beat()
    [updated] = await opened.workers()
    assert updated.info.memory_bytes == 70_000_000
    assert (updated.started_at_ms, updated.stopping_since_ms is None) == (worker.started_at_ms, False)


async def test_a_registration_that_is_refused_is_not_repeated(opened: Service) -> None:
    holder = LeaseHolder(opened, WORKER, WorkerInfo(slots=-1), RecordingOwner(), log)
    with pytest.raises(BadInput):
        await holder.register()


@pytest.mark.parametrize("is_worker", [True, False])
async def test_deregistering_gives_back_what_is_left(opened: Service, is_worker: bool) -> None:
    holder_id = WORKER if is_worker else anonymous_holder()
    owner = RecordingOwner(await take(opened, holder=holder_id))
    holder = make_holder(opened, owner) if is_worker else make_anonymous(opened, owner, holder_id)
    await holder.register()
    await holder.deregister()
    job = await read(opened, owner.jobs[0])
    assert (job.state, job.attempt, await opened.workers()) == (State.QUEUED, 0, [])


async def test_deregistering_twice_is_no_error(opened: Service, caplog: pytest.LogCaptureFixture) -> None:
    holder = make_anonymous(opened, RecordingOwner(), anonymous_holder())
    await holder.deregister()
    await holder.deregister()
    assert caplog.text == ""


# An engine that is away


async def test_heartbeats_go_on_after_an_outage(
    lossy: Service, opened: Service, lossy_connection: LossyConnection, caplog: pytest.LogCaptureFixture
) -> None:
    owner = RecordingOwner(await take(opened, lease_ms=LEASE_MS))
    holder = make_holder(lossy, owner)
    await holder.register()
    holder.expect_lease(300)
    running = asyncio.create_task(holder.run())
    lossy_connection.cut()
    await wait_for_log(caplog, "Could not send a heartbeat; trying again")
    opened.store.clock_offset_ms += LEASE_MS - 5_000
    lossy_connection.restore()
    before = owner.jobs[0].lease_deadline_at_ms or 0
    while ((await read(opened, owner.jobs[0])).lease_deadline_at_ms or 0) <= before:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.wait({running})
    assert owner.lost == []


async def test_a_worker_registers_when_the_engine_is_back(
    lossy: Service, opened: Service, lossy_connection: LossyConnection, caplog: pytest.LogCaptureFixture
) -> None:
    lossy_connection.cut()
    registering = asyncio.create_task(make_holder(lossy, RecordingOwner()).register())
    await wait_for_log(caplog, "Could not register the worker; trying again")
    lossy_connection.restore()
    await registering
    assert [worker.id for worker in await opened.workers()] == [WORKER]


async def test_deregistering_does_not_wait_for_the_engine(
    lossy: Service, lossy_connection: LossyConnection, caplog: pytest.LogCaptureFixture
) -> None:
    holder = make_holder(lossy, RecordingOwner())
    await holder.register()
    lossy_connection.cut()
    await holder.deregister(0.05)
    assert "Could not deregister the worker: TimeoutError()" in caplog.text
