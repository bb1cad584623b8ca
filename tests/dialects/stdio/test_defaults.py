"""The constants of the processor: TICK_INTERVAL 3000, WORKER_EXPIRY_PERIOD and MAX_LEASE_TIME of three ticks. They are
the defaults of the session and of the command."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import click
import pytest

from tests.dialects.stdio.processor_client import (
    ProcessorProcess,
    SessionClient,
    W,
    add,
    idle,
    job_uuid,
    message_line,
    parse_assignment,
    running_session,
    worker_line,
    worker_uuid,
)
from windlass.cli.commands import processor as command
from windlass.core.job import Job
from windlass.core.operations import Listing
from windlass.core.states import State
from windlass.dialects.stdio.messages import ProcessorOptions
from windlass.service import Service
from windlass.store.store import Store

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)

TICK_INTERVAL, WORKER_EXPIRY_PERIOD, MAX_LEASE_TIME = 3_000, 9_000, 9_000
TICK = message_line("tick", {"uuid": "t", "timestamp": 1})
FRESH_S = -60  # a busy machine does not make the message old
TRIES = 20  # a busy machine may be too slow for the last 100 ms before a deadline


@pytest.fixture
async def service(store: Store) -> AsyncIterator[Service]:
    yield Service(store)
    await store.close()


@pytest.fixture
async def processor(service: Service) -> AsyncIterator[SessionClient]:
    async with running_session(service, ProcessorOptions()) as processor:
        yield processor


def test_the_options_of_a_session(engine: object) -> None:
    options = ProcessorOptions()
    assert (options.tick_ms, options.expiry_ms, options.accept_ms) == (
        TICK_INTERVAL, WORKER_EXPIRY_PERIOD, MAX_LEASE_TIME,
    )  # fmt: skip


def test_the_options_of_the_command(engine: object, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[ProcessorOptions] = []

    def run_session(_: object, options: ProcessorOptions) -> Any:
        given.append(options)
        raise click.Abort

    monkeypatch.setattr(command, "run_session", run_session)
    with pytest.raises(SystemExit):
        command.processor.main([], standalone_mode=False)
    assert given == [ProcessorOptions()]


async def jobs_of(service: Service, state: str) -> list[Job]:
    return (await service.jobs(Listing(queue="q", state=state))).jobs


async def dispatch(processor: SessionClient, number: int, worker: str = W) -> None:
    """Add a job and let the worker have it."""
    processor.send(add(number), idle(worker, age_s=FRESH_S))
    assert await processor.assignments(1) == [(worker, job_uuid(number))]


async def move_clock_to(service: Service, at_ms: int) -> None:
    service.store.clock_offset_ms += at_ms - await service.now()


async def is_before(service: Service, at_ms: int) -> bool:
    return await service.now() < at_ms


@pytest.mark.anyio
async def test_a_job_that_is_not_accepted_within_nine_seconds_returns_to_the_front(
    processor: SessionClient, service: Service
) -> None:
    for number in range(1, TRIES):
        await dispatch(processor, number, worker_uuid(number))
        (job,) = await jobs_of(service, "running")
        assert (job.lease_deadline_at_ms or 0) - (job.started_at_ms or 0) == MAX_LEASE_TIME
        deadline_ms = job.lease_deadline_at_ms or 0
        await move_clock_to(service, deadline_ms - 100)
        listed = await processor.list_jobs_after(add(100), TICK)
        if await is_before(service, deadline_ms):
            break
        await service.delete([found.id for found in await jobs_of(service, "queued")])
    else:
        pytest.fail("the machine is too slow")
    assert [row["uuid"] for row in listed["payload"]["jobs"]] == [job_uuid(100)]
    await move_clock_to(service, deadline_ms)
    listed = await processor.list_jobs_after(TICK)
    assert [row["uuid"] for row in listed["payload"]["jobs"]] == [job_uuid(number), job_uuid(100)]


@pytest.mark.anyio
async def test_a_worker_that_is_silent_for_nine_seconds_is_purged_and_its_jobs_return(
    processor: SessionClient, service: Service
) -> None:
    for number in range(1, TRIES):
        await dispatch(processor, number, worker_uuid(number))
        await processor.list_jobs_after(worker_line("job_accepted", worker_uuid(number), number))
        (job,) = await jobs_of(service, "running")
        (worker,) = await service.workers()
        assert worker.silent_at_ms - worker.beat_at_ms == WORKER_EXPIRY_PERIOD
        assert job.state is State.RUNNING
        # The lease begins when the engine processes the message, a little after the worker wrote it.
        assert 0 <= (job.lease_deadline_at_ms or 0) - worker.silent_at_ms < TICK_INTERVAL
        await move_clock_to(service, worker.silent_at_ms - 100)
        await processor.list_jobs_after(TICK)
        workers, running = await service.workers(), await jobs_of(service, "running")
        if await is_before(service, worker.silent_at_ms):
            break
        await service.delete([found.id for found in await jobs_of(service, "queued")])
    else:
        pytest.fail("the machine is too slow")
    assert ([found.id for found in workers], [found.id for found in running]) == ([worker.id], [job.id])
    await move_clock_to(service, max(worker.silent_at_ms, job.lease_deadline_at_ms or 0))
    listed = await processor.list_jobs_after(TICK)
    assert [row["uuid"] for row in listed["payload"]["jobs"]] == [job_uuid(number)]
    assert await service.workers() == []


@pytest.mark.anyio
async def test_a_message_every_tick_keeps_worker_and_job(processor: SessionClient, service: Service) -> None:
    await dispatch(processor, 1)
    await processor.list_jobs_after(worker_line("job_accepted", W, 1))
    for _ in range(5):
        service.store.clock_offset_ms += TICK_INTERVAL
        await processor.list_jobs_after(worker_line("worker_progress", W, 1), TICK)
    assert [job.state for job in await jobs_of(service, "running")] == [State.RUNNING]
    assert len(await service.workers()) == 1


@pytest.mark.anyio
async def test_an_idle_message_of_a_tick_ago_triggers_no_dispatch(processor: SessionClient) -> None:
    answer = await processor.list_jobs_after(add(1), idle(age_s=TICK_INTERVAL / 1000))
    assert len(answer["payload"]["jobs"]) == 1
    processor.send(idle(age_s=FRESH_S))
    assert await processor.assignments(1) == [(W, job_uuid(1))]


def test_the_command_has_these_deadlines(engine: object, store: Store) -> None:
    with ProcessorProcess(store) as process:
        process.send(add(1), idle(age_s=FRESH_S))
        assert parse_assignment(process.receive()) == (W, job_uuid(1))
        (job,) = Service(store).jobs(Listing(queue="q", state="running")).wait().jobs
        (worker,) = Service(store).workers().wait()
        store.close_sync()
    assert (job.lease_deadline_at_ms or 0) - (job.started_at_ms or 0) == MAX_LEASE_TIME
    assert worker.silent_at_ms - worker.beat_at_ms == WORKER_EXPIRY_PERIOD
