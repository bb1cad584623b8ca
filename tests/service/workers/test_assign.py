"""assign: one job for each worker that has reported to be idle."""

from __future__ import annotations

import asyncio

import pytest

from tests.service.helpers import another, new, put, read, take
from tests.service.workers.test_report_worker import (
    ACCEPT_MS,
    SILENT_MS,
    TICK_MS,
    A,
    B,
    assign,
    assigned,
    counts,
    pass_ms,
    say,
)
from tests.support.namespace import send_command
from windlass.core.job import Job
from windlass.core.operations import Take, WorkerInfo, WorkerReport
from windlass.core.retry import Backoff
from windlass.core.states import State
from windlass.service import Service


def test_one_job_to_each_idle_worker_and_none_to_others(service: Service) -> None:
    put(service, *(new() for _ in range(3)))
    assert assign(service) == []
    say(service, "idle", A)
    say(service, "idle", B)
    assert {job.worker for job in assign(service)} == {A, B}
    assert assign(service) == []
    assert counts(service) == {"running": 2, "queued": 1}


def test_all_jobs_are_given_while_there_are_idle_workers(service: Service) -> None:
    put(service, *(new() for _ in range(50)))
    workers = [number.to_bytes(16, "big") for number in range(1, 61)]
    info = WorkerInfo(name="w")
    said = [WorkerReport(queue="q", worker=worker, info=info, kind="idle", idle_ms=TICK_MS) for worker in workers]
    service.report_worker(said, silent_ms=SILENT_MS).wait()
    given = assign(service)
    assert len({job.worker for job in given}) == len({job.id for job in given}) == 50


def test_the_order_is_by_priority_then_first_in_first_out(service: Service) -> None:
    ids = [one.id for one in put(service, new(priority=0), new(priority=-5), new(priority=4), new(priority=0))]
    given = []
    for _ in ids:
        say(service, "idle")
        given += [job.id for job in assign(service)]
    assert given == [ids[1], ids[0], ids[3], ids[2]]


def test_a_worker_is_chosen_by_chance(service: Service) -> None:
    chosen = set()
    for _ in range(60):
        say(service, "idle", A)
        say(service, "idle", B)
        put(service, new())
        chosen |= {job.worker for job in assign(service)}
    assert chosen == {A, B}


def test_an_idle_message_counts_for_its_time_only(service: Service) -> None:
    put(service, new(), new())
    say(service, "idle", idle_ms=0)
    assert assign(service) == []
    say(service, "idle")
    pass_ms(service, TICK_MS)
    assert assign(service) == []
    say(service, "idle")
    pass_ms(service, TICK_MS // 2)
    assert len(assign(service)) == 1


def test_a_worker_that_is_busy_gets_nothing(service: Service) -> None:
    put(service, new(unique="u"))
    say(service, "idle")
    say(service, "progress", unique="nobody")
    assert assign(service) == []


def test_a_worker_that_has_finished_is_idle(service: Service) -> None:
    assigned(service)
    say(service, "accepted", unique="u")
    put(service, new())
    assert assign(service) == []
    say(service, "finished", unique="u")
    assert len(assign(service)) == 1


def test_a_worker_that_says_finished_and_idle_is_given_one_job(service: Service) -> None:
    assigned(service)
    say(service, "accepted", unique="u")
    put(service, *(new() for _ in range(4)))
    say(service, "finished", unique="u")
    assert len(assign(service)) == 1
    say(service, "idle")
    assert assign(service) == []
    say(service, "idle")
    assert len(assign(service)) == 1


def test_a_worker_that_says_idle_again_is_given_another(service: Service) -> None:
    put(service, new(), new())
    for _ in range(2):
        say(service, "idle")
        assert len(assign(service)) == 1


def test_workers_of_one_queue_get_no_jobs_of_another(service: Service) -> None:
    put(service, new(queue="other"))
    say(service, "idle")
    assert service.assign(["q", "other"], accept_ms=ACCEPT_MS).wait().jobs == []


def test_what_is_not_accepted_in_time_goes_back_to_the_front_unspent(service: Service) -> None:
    job = assigned(service)
    put(service, new(unique="later"))
    pass_ms(service, ACCEPT_MS)
    say(service, "idle", B)
    (again,) = assign(service)
    assert (again.id, again.worker, again.attempt) == (job.id, B, 1)


@pytest.mark.parametrize("retake", [False, True])
def test_a_dispatch_spends_an_attempt_where_it_is_to(service: Service, retake: bool) -> None:
    """Only a running job can be redelivered: a job that was not accepted goes back."""
    (known,) = put(service, new(retry=Backoff(tries=2), retake=retake))
    for attempt in (1, 2):
        say(service, "idle")
        (job,) = assign(service, spends_attempt=True)
        assert job.attempt == attempt
        pass_ms(service, ACCEPT_MS)
        service.recover().wait()
    assert read(service, known.id).state is State.FAILED
    assert service.job([known.id]).one().wait().attempts[-1].reason == "lease_expired"


def test_those_who_take_and_those_who_are_given_share_a_queue(service: Service) -> None:
    put(service, new(), new())
    say(service, "idle")
    given, taken = assign(service), take(service)
    assert len({job.id for job in given + taken}) == 2


def test_a_paused_queue_gives_nothing(service: Service) -> None:
    put(service, new())
    say(service, "idle")
    service.pause("q").wait()
    assert assign(service) == []
    service.resume("q").wait()
    assert len(assign(service)) == 1


def test_lanes_by_name_give_all_names(service: Service) -> None:
    service.configure("q", {"name_lanes": True}).wait()
    put(service, new(name="a"), new(name="b"))
    say(service, "idle", A)
    say(service, "idle", B)
    assert {job.name for job in assign(service)} == {"a", "b"}


@pytest.mark.anyio
async def test_a_job_that_comes_later_is_given_at_once(service: Service) -> None:
    await _idle(service)
    waiting = asyncio.create_task(_waited(service))
    other = another(service)
    try:
        while not waiting.done():
            await other.enqueue([new()])
            await asyncio.wait({waiting}, timeout=0.05)
        (job,) = await waiting
        assert job.worker == A
    finally:
        await other.store.close()
        await service.store.close()


@pytest.mark.anyio
async def test_a_job_that_went_back_is_given_when_its_deadline_has_passed(service: Service) -> None:
    await service.enqueue([new()])
    await _idle(service)
    (first,) = (await service.assign(["q"], accept_ms=300)).jobs
    await _idle(service, B)
    (again,) = await _waited(service)
    assert (again.id, again.worker) == (first.id, B)
    await service.store.close()


@pytest.mark.anyio
async def test_a_wakeup_without_an_idle_worker_goes_on_to_a_taker(service: Service) -> None:
    """The worker reports to be busy while its processor waits: the job must reach the next taker."""
    await _idle(service)
    other = another(service)
    waiting = asyncio.create_task(_waited(service, 20_000))
    try:
        await _until_waiters(service, 1)
        taking = asyncio.ensure_future(_taken(other))
        await _until_waiters(service, 2)
        said = WorkerReport(queue="q", worker=A, info=WorkerInfo(name="a"), kind="progress")
        await service.report_worker([said], silent_ms=SILENT_MS)
        await service.enqueue([new()])
        assert len(await taking) == 1
    finally:
        waiting.cancel()
        await asyncio.wait({waiting})
        await other.store.close()
        await service.store.close()


async def _idle(service: Service, worker: bytes = A) -> None:
    said = WorkerReport(queue="q", worker=worker, info=WorkerInfo(name="a"), kind="idle", idle_ms=60_000)
    await service.report_worker([said], silent_ms=60_000)


async def _waited(service: Service, wait_ms: int = 60_000) -> list[Job]:
    return (await service.assign(["q"], accept_ms=ACCEPT_MS, wait_ms=wait_ms)).jobs


async def _taken(service: Service) -> list[Job]:
    return (await service.take(Take(queues=("q",), wait_ms=60_000))).jobs


async def _until_waiters(service: Service, count: int) -> None:
    key = f"{service.store.root(0)}:waiters:q"
    while await asyncio.to_thread(send_command, service.store, "ZCARD", key) < count:
        pass
