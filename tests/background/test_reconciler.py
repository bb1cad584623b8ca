"""Reconciler of unclaimed leases: given-back leases, kept leases and late answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from windlass.background import reconciler as reconciler_module
from windlass.background.reconciler import Reconciler
from windlass.core.job import Job, NewJob
from windlass.core.operations import LeaseRef, Take
from windlass.core.states import State
from windlass.service import Service
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

WORKER = b"w" * 16


@pytest.fixture
async def opened(service: Service, store: Store, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Service]:
    monkeypatch.setattr(reconciler_module, "SETTLE_S", 0.05)
    async with store, asyncio.timeout(20):
        yield service


async def taken(service: Service, count: int) -> list[Job]:
    await service.enqueue([NewJob(queue="q", name="n") for _ in range(count)])
    return (await service.take(Take(queues=("q",), most=count, worker=WORKER, lease_ms=3_600_000))).jobs


def lease(job: Job) -> LeaseRef:
    return LeaseRef(job.id, job.lease_token)


async def state_of(service: Service, job: Job) -> State:
    return (await service.job([job.id]).one()).job.state


async def until_decided(reconciler: Reconciler) -> None:
    while reconciler._deciding is not None:  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def test_what_the_holder_does_not_hold_goes_back(opened: Service, caplog: pytest.LogCaptureFixture) -> None:
    held, lost = await taken(opened, 2)
    reconciler = Reconciler(opened, {lease(held)}.__contains__)
    reconciler.begin([lease(held), lease(lost)])
    await until_decided(reconciler)
    assert [await state_of(opened, job) for job in (held, lost)] == [State.RUNNING, State.QUEUED]
    assert "Gave back 1 jobs that the engine had leased to this worker" in caplog.text
    assert lost.key in caplog.text


async def test_what_arrives_before_the_decision_stays(opened: Service) -> None:
    (job,) = await taken(opened, 1)
    in_hand: set[LeaseRef] = set()
    reconciler = Reconciler(opened, in_hand.__contains__)
    reconciler.begin([lease(job)])
    assert reconciler.admit([job]) == [job]
    in_hand.add(lease(job))
    await until_decided(reconciler)
    assert await state_of(opened, job) is State.RUNNING


async def test_a_late_answer_does_not_begin_what_was_given_back(opened: Service) -> None:
    late, other = await taken(opened, 2)
    reconciler = Reconciler(opened, lambda _: False)
    reconciler.begin([lease(late)])
    await until_decided(reconciler)
    assert reconciler.admit([late, other]) == [other]
    (again,) = (await opened.take(Take(queues=("q",), worker=WORKER))).jobs
    assert again.id == late.id
    assert reconciler.admit([again]) == [again]  # by a later lease


async def test_a_lease_that_is_another_one_by_now_is_left_alone(
    opened: Service, caplog: pytest.LogCaptureFixture
) -> None:
    (job,) = await taken(opened, 1)
    await opened.release([lease(job)])
    (again,) = (await opened.take(Take(queues=("q",), worker=WORKER))).jobs
    reconciler = Reconciler(opened, lambda _: False)
    reconciler.begin([lease(job)])
    await until_decided(reconciler)
    assert (await state_of(opened, again), caplog.text) == (State.RUNNING, "")


async def test_a_decision_ends_with_its_holder(opened: Service, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "windlass.background")
    (job,) = await taken(opened, 1)
    reconciler = Reconciler(opened, lambda _: False)
    reconciler.begin([lease(job)])
    reconciler.close()
    await until_decided(reconciler)
    assert (await state_of(opened, job), caplog.text) == (State.RUNNING, "")
