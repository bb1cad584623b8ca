"""Lease of a bulk action: renewed during a step, given back after a lost take, and kept over an outage."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.support.engine_process import EngineProcess
from tests.support.lossy_connection import LIMIT_S, SETTLED_MS, LossyConnection, open_lossy_connection
from windlass.background import lease_holder, reconciler
from windlass.background.bulk_runner import LEASE_MS, BulkRunner
from windlass.core.bulk_action import QUEUE, Action, ActionProgress
from windlass.core.errors import EngineUnavailable
from windlass.core.job import Job, NewJob
from windlass.core.operations import Listing
from windlass.core.states import State
from windlass.service import Service
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]


@pytest.fixture
async def opened(service: Service, store: Store, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Service]:
    monkeypatch.setattr(lease_holder, "BEAT_EVERY_S", 0.05)
    monkeypatch.setattr(reconciler, "SETTLE_S", 0.05)
    async with store, asyncio.timeout(LIMIT_S):
        yield service


@pytest.fixture
def lossy_connection(engine: EngineProcess) -> Iterator[LossyConnection]:
    with open_lossy_connection(engine) as found:
        yield found


class GatedRunner(BulkRunner):
    """Runner whose steps wait for permission."""

    def __init__(self) -> None:
        super().__init__(step=1)
        self.steps = 0
        self.has_begun = asyncio.Event()
        self.may_go_on = asyncio.Event()
        self.errors_left = 0

    async def _run_step(self, service: Service, progress: ActionProgress) -> ActionProgress:
        self.steps += 1
        self.has_begun.set()
        await self.may_go_on.wait()
        if self.errors_left:
            self.errors_left -= 1
            raise EngineUnavailable("away")
        return await super()._run_step(service, progress)


@contextlib.asynccontextmanager
async def running(runner: BulkRunner, service: Service) -> AsyncIterator[None]:
    task = asyncio.create_task(runner.run(service))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()


async def request_cancels(service: Service) -> bytes:
    """Request a bulk action that cancels two jobs."""
    await service.enqueue([NewJob(queue="q", name="n") for _ in range(2)])
    return (await service.act(Action(verb="cancel", listing=Listing(queue="q", state="queued")))).id


async def read(service: Service, job_id: bytes) -> Job:
    return (await service.job([job_id]).one()).job


async def until_in_state(service: Service, job_id: bytes, state: State) -> Job:
    while (job := await read(service, job_id)).state is not state:  # noqa: ASYNC110 (a condition of the engine)
        await asyncio.sleep(0.01)
    return job


async def test_a_step_may_last_longer_than_the_lease(opened: Service) -> None:
    action = await request_cancels(opened)
    runner = GatedRunner()
    async with running(runner, opened):
        await runner.has_begun.wait()
        for _ in range(3):
            before = (await read(opened, action)).lease_deadline_at_ms or 0
            opened.store.clock_offset_ms += LEASE_MS * 2 // 3
            while ((await read(opened, action)).lease_deadline_at_ms or 0) <= before:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await opened.recover()
        runner.may_go_on.set()
        job = await until_in_state(opened, action, State.FINISHED)
    assert (job.attempt, (await opened.action(action)).done) == (1, 2)
    assert await opened.workers() == [], "the runner is no worker"


async def test_an_action_whose_take_was_lost_runs(
    opened: Service, lossy_connection: LossyConnection, caplog: pytest.LogCaptureFixture
) -> None:
    action = await request_cancels(opened)
    async with lossy_connection.store_like(opened.store) as store:
        lossy_connection.lose_call_with(QUEUE)
        async with running(BulkRunner(), Service(store)):
            await lossy_connection.wait_lost()
            assert (await read(opened, action)).state is State.RUNNING
            opened.store.clock_offset_ms += SETTLED_MS
            job = await until_in_state(opened, action, State.FINISHED)
    assert (job.attempt, (await opened.action(action)).done) == (1, 2)
    assert "Gave back 1 jobs" in caplog.text


async def test_an_action_goes_on_after_an_outage_under_the_same_lease(opened: Service) -> None:
    action = await request_cancels(opened)
    runner = GatedRunner()
    runner.errors_left = 1
    async with running(runner, opened):
        await runner.has_begun.wait()
        token = (await read(opened, action)).lease_token
        runner.may_go_on.set()
        while runner.steps < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert (await read(opened, action)).lease_token in (token, 0)
        job = await until_in_state(opened, action, State.FINISHED)
    assert (job.attempt, (await opened.action(action)).done) == (1, 2)


async def test_an_action_whose_lease_is_lost_stops(opened: Service, caplog: pytest.LogCaptureFixture) -> None:
    action = await request_cancels(opened)
    runner = GatedRunner()
    runner.errors_left = 100
    async with running(runner, opened):
        await runner.has_begun.wait()
        await opened.pause(QUEUE)
        await opened.requeue([action]).one()
        runner.may_go_on.set()
        while "Could not run bulk actions" not in caplog.text:  # noqa: ASYNC110 (a line of another task)
            await asyncio.sleep(0.01)
        assert (await read(opened, action)).state is State.QUEUED
    assert runner.steps <= 2


async def test_an_action_that_outlives_a_fixed_lease_stops(opened: Service, caplog: pytest.LogCaptureFixture) -> None:
    await opened.configure(QUEUE, {"lease_renewal": False})
    action = await request_cancels(opened)
    runner = GatedRunner()
    runner.errors_left = 100
    async with running(runner, opened):
        await runner.has_begun.wait()
        await opened.pause(QUEUE)
        opened.store.clock_offset_ms += LEASE_MS - 500
        runner.may_go_on.set()
        while "was not finished within its lease" not in caplog.text:  # noqa: ASYNC110 (a line of another task)
            await asyncio.sleep(0.01)
        await opened.recover()
        assert (await read(opened, action)).state is State.QUEUED


async def test_a_cancelled_action_stops_although_its_step_fails(opened: Service) -> None:
    action = await request_cancels(opened)
    runner = GatedRunner()
    runner.errors_left = 100
    async with running(runner, opened):
        await runner.has_begun.wait()
        await opened.cancel([action]).one()
        runner.may_go_on.set()
        opened.store.clock_offset_ms += SETTLED_MS
        await until_in_state(opened, action, State.CANCELLED)
