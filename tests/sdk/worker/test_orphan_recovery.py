"""Recovery of the jobs of a worker process that has died."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from windlass.core.job import Attempt, NewJob
from windlass.core.operations import Finish, Take, WorkerInfo
from windlass.core.retry import Backoff
from windlass.sdk.worker.supervision.crashes import make_crash
from windlass.sdk.worker.supervision.orphan_recovery import recover_orphans, release_jobs
from windlass.service import Service
from windlass.store.store import Store

pytestmark = pytest.mark.anyio
DEAD, OTHER = b"d" * 16, b"o" * 16
AGAIN = Backoff(tries=9, base_ms=0, jitter=0.0)


async def held_by(service: Service, worker: bytes, jobs: int, queue: str = "q") -> list[bytes]:
    await service.register(worker, WorkerInfo(host="h", pid=1))
    new = [NewJob(queue=queue, name="n", retry=AGAIN, lease_ms=600_000) for _ in range(jobs)]
    await service.enqueue(new)
    taken = await service.take(Take(queues=(queue,), most=jobs, worker=worker))
    return [job.id for job in taken.jobs]


async def test_all_of_them_are_free_at_once_and_have_lost_an_attempt(service: Service) -> None:
    ids = await held_by(service, DEAD, 250)  # more than one page
    others = await held_by(service, OTHER, 3)
    assert await recover_orphans(service, DEAD, {}, "It died.") == 250
    assert [worker.id for worker in await service.workers()] == [OTHER]
    taken = await service.take(Take(queues=("q",), most=1000))
    assert {job.id for job in taken.jobs} == set(ids)
    assert {job.attempt for job in taken.jobs} == {2}
    timeline = await service.job([ids[0]]).one()
    assert [attempt.reason for attempt in timeline.attempts] == ["crashed"]
    assert {(await service.job([one]).one()).job.worker for one in others} == {OTHER}
    await service.store.close()


async def test_jobs_that_are_with_somebody_else_by_now_stay_there(service: Service) -> None:
    (job_id,) = await held_by(service, DEAD, 1)
    await service.requeue([job_id])
    (again,) = (await service.take(Take(queues=("q",), worker=OTHER))).jobs
    assert await recover_orphans(service, DEAD, {}, "It died.") == 0
    assert await service.finish([Finish(again.id, again.lease_token)]) == [None]
    await service.store.close()


async def test_a_job_that_crashes_too_often_fails(service: Service) -> None:
    (job_id,) = await held_by(service, DEAD, 1)
    for crash in (1, 2):
        assert (await service.job([job_id]).one()).job.state.label == "running"
        assert await recover_orphans(service, DEAD, {"n": 2}, "It died.") == 1
        if crash == 1:
            await service.register(DEAD, WorkerInfo(host="h", pid=1))
            await service.take(Take(queues=("q",), worker=DEAD))
    timeline = await service.job([job_id]).one()
    assert (timeline.job.state.label, timeline.attempts[-1].reason) == ("failed", "crashed")
    await service.store.close()


async def test_a_job_runs_again_at_once_after_its_first_crash_only(service: Service) -> None:
    slow = Backoff(tries=9, base_ms=600_000, jitter=0.0)
    for state in ("queued", "scheduled"):
        await service.register(DEAD, WorkerInfo(host="h", pid=1))
        if state == "queued":
            await service.enqueue([NewJob(queue="q", name="n", retry=slow)])
        (job,) = (await service.take(Take(queues=("q",), worker=DEAD))).jobs
        assert await recover_orphans(service, DEAD, {}, "It died.") == 1
        assert (await service.job([job.id]).one()).job.state.label == state
    await service.store.close()


async def test_a_worker_that_nobody_knows(service: Service) -> None:
    assert await recover_orphans(service, DEAD, {}, "It died.") == 0
    await release_jobs(service, DEAD)
    await service.store.close()


async def test_in_every_partition(divided_store: Callable[[int], Store]) -> None:
    service = Service(divided_store(4))
    for queue in ("a", "b", "c", "d", "e"):
        await held_by(service, DEAD, 2, queue)
    assert await recover_orphans(service, DEAD, {}, "It died.") == 10
    await service.store.close()


def test_the_rule_of_crashes() -> None:
    def attempts(*reasons: str) -> list[Attempt]:
        return [
            Attempt(attempt=n, started_at_ms=0, ended_at_ms=0, worker=None, reason=reason, error=None)
            for n, reason in enumerate(reasons, 1)
        ]

    assert not make_crash(attempts(), 2, "Died", "").failure.is_final
    assert not make_crash(attempts("error", "timeout"), 2, "Died", "").failure.is_final  # only crashes count
    assert make_crash(attempts("crashed"), 2, "Died", "").failure.is_final
    assert make_crash(attempts("out_of_memory", "error"), 2, "Died", "").failure.is_final
