"""A GetJob whose reply from the engine was lost: the job is released, and another GetJob gets it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.dialects.bedrock.command_router import BedrockCommands
from tests.service.admin.doctor_findings import assert_healthy
from tests.support.engine_process import EngineProcess
from tests.support.lossy_connection import LIMIT_S, SETTLED_MS, LossyConnection, open_lossy_connection
from windlass.background import reconciler
from windlass.core.states import State
from windlass.dialects.bedrock import takes
from windlass.service import Service
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]


@pytest.fixture
def lossy_connection(engine: EngineProcess) -> Iterator[LossyConnection]:
    with open_lossy_connection(engine) as found:
        yield found


@pytest.fixture
async def lossy_bedrock(
    store: Store, lossy_connection: LossyConnection, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[BedrockCommands]:
    """Commands in the namespace of `store`, over a connection that loses replies."""
    monkeypatch.setattr(takes, "CHECK_EVERY_S", 0.05)
    monkeypatch.setattr(reconciler, "SETTLE_S", 0.05)
    async with lossy_connection.store_like(store) as found, asyncio.timeout(LIMIT_S):
        bedrock = BedrockCommands(Service(found))
        yield bedrock
        await bedrock.router.close()


async def job_of(bedrock: BedrockCommands, number: int) -> tuple[State, int, bytes | None]:
    service = bedrock.service
    job = (await service.job([service.numbered_id("bedrock", number)]).one()).job
    return job.state, job.attempt, job.worker


async def until_queued(bedrock: BedrockCommands, number: int) -> None:
    while (await job_of(bedrock, number))[0] is not State.QUEUED:  # noqa: ASYNC110 (a condition of the engine)
        await asyncio.sleep(0.01)


async def test_a_job_that_no_client_got_is_released(
    lossy_bedrock: BedrockCommands, lossy_connection: LossyConnection, service: Service
) -> None:
    number = (await lossy_bedrock.ok("CreateJob", name="n")).body["jobID"]
    lossy_connection.lose("take")
    assert (await lossy_bedrock("GetJob", name="n")).line == "404 No job found"  # by the repeated call
    assert await job_of(lossy_bedrock, number) == (State.RUNNING, 1, None)
    assert_healthy(service)
    lossy_bedrock.service.store.clock_offset_ms += SETTLED_MS
    await until_queued(lossy_bedrock, number)
    assert await job_of(lossy_bedrock, number) == (State.QUEUED, 0, None)
    assert (await lossy_bedrock.ok("GetJob", name="n")).body["jobID"] == number


async def test_delivered_jobs_are_not_released(
    lossy_bedrock: BedrockCommands, lossy_connection: LossyConnection
) -> None:
    """Jobs delivered before, together with, and after the lost reply."""
    jobs = (await lossy_bedrock.ok("CreateJobs", jobs=[{"name": "n"} for _ in range(4)])).body["jobIDs"]
    before = (await lossy_bedrock.ok("GetJob", name="n")).body["jobID"]
    lossy_connection.lose("take")
    instead = (await lossy_bedrock.ok("GetJob", name="n")).body["jobID"]
    after = (await lossy_bedrock.ok("GetJob", name="n")).body["jobID"]
    (lost,) = set(jobs) - {before, instead, after}
    lossy_bedrock.service.store.clock_offset_ms += SETTLED_MS
    await until_queued(lossy_bedrock, lost)
    assert (await lossy_bedrock.ok("GetJob", name="n")).body["jobID"] == lost
    for number in jobs:
        assert (await lossy_bedrock.ok("FinishJob", jobID=number)).line == "200 OK"


async def test_a_waiting_client_gets_the_job_of_its_lost_reply(
    lossy_bedrock: BedrockCommands, lossy_connection: LossyConnection
) -> None:
    number = (await lossy_bedrock.ok("CreateJob", name="n")).body["jobID"]
    lossy_connection.lose("take")
    waiting = asyncio.create_task(lossy_bedrock.ok("GetJob", name="n", Connection="wait"))
    await lossy_connection.wait_lost()
    lossy_bedrock.service.store.clock_offset_ms += SETTLED_MS
    assert (await waiting).body["jobID"] == number


async def _queued_child(bedrock: BedrockCommands) -> int:
    """Create a child that GetJob can take. Its reply needs a second call to the engine."""
    parent, child = await bedrock.parent_and_child()
    await bedrock.ok("FinishJob", jobID=parent)
    return child


async def test_lost_details_are_read_again(lossy_bedrock: BedrockCommands, lossy_connection: LossyConnection) -> None:
    child = await _queued_child(lossy_bedrock)
    lossy_connection.lose("taken_details")
    assert (await lossy_bedrock.get("child"))["jobID"] == child
    await lossy_connection.wait_lost()
    assert (await job_of(lossy_bedrock, child))[0] is State.RUNNING
    assert lossy_bedrock.router._get._takes._check_task is None, "no take was pending"


async def test_a_command_cancelled_between_its_two_calls_releases_its_job(
    lossy_bedrock: BedrockCommands, lossy_connection: LossyConnection
) -> None:
    is_cancelled = False
    while not is_cancelled:  # the call may be repeated before the cancellation
        child = await _queued_child(lossy_bedrock)
        lossy_connection.lose("taken_details")
        command = asyncio.create_task(lossy_bedrock.get("child"))
        await lossy_connection.wait_lost()
        command.cancel()
        await asyncio.wait({command})
        is_cancelled = command.cancelled()
    await until_queued(lossy_bedrock, child)
    assert await job_of(lossy_bedrock, child) == (State.QUEUED, 0, None)


async def test_there_are_no_checks_without_lost_replies(lossy_bedrock: BedrockCommands) -> None:
    await lossy_bedrock.ok("CreateJob", name="n")
    await lossy_bedrock.ok("GetJob", name="n")
    assert lossy_bedrock.router._get._takes._check_task is None
