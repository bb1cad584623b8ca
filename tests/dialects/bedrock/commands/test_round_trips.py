"""Calls to the engine per GetJob, GetJobs and CreateJob."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TypeAlias

import pytest

from tests.dialects.bedrock.command_router import BedrockCommands
from tests.support.engine_process import EngineProcess
from tests.support.namespace import record_operations
from windlass.core.job import Blob, NewJob
from windlass.core.operations import Enqueued, Finish, Take

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

Recorder: TypeAlias = Callable[[], contextlib.AbstractContextManager[list[str]]]
TAKE = ["take"]
TAKE_AND_DETAILS = ["take", "taken_details"]


@pytest.fixture
def recorded(bedrock: BedrockCommands, engine: EngineProcess) -> Recorder:
    @contextlib.contextmanager
    def record() -> Iterator[list[str]]:
        with record_operations(engine, bedrock.service.store) as operations:
            yield operations

    return record


async def _enqueue(bedrock: BedrockCommands, **fields: object) -> bytes:
    """Enqueue a job that gets its number when it is first shown."""
    (made,) = await bedrock.service.enqueue([NewJob(queue="bedrock", **fields)])  # type: ignore[arg-type]
    assert isinstance(made, Enqueued)
    return made.id


async def _finished_children(bedrock: BedrockCommands, count: int) -> int:
    """Make a parent that is queued again, with finished children."""
    parent = await bedrock.running("parent")
    jobs = [{"name": "child", "parentJobID": parent, "data": {"n": n}} for n in range(count)]
    for start in range(0, count, 1000):
        await bedrock.ok("CreateJobs", jobs=jobs[start : start + 1000])
    await bedrock.ok("FinishJob", jobID=parent)
    while (taken := await bedrock.service.take(Take(queues=("bedrock",), most=500))).jobs:
        if taken.jobs[0].name == "parent":
            await bedrock.router.release_jobs(((taken.jobs[0].id, taken.jobs[0].lease_token),))
            break
        await bedrock.service.finish([Finish(job.id, job.lease_token) for job in taken.jobs])
    return parent


async def test_a_job(bedrock: BedrockCommands, recorded: Recorder) -> None:
    number = await bedrock.create()
    with recorded() as operations:
        assert (await bedrock.get())["jobID"] == number
    assert operations == TAKE


async def test_no_job(bedrock: BedrockCommands, recorded: Recorder) -> None:
    await bedrock.running()
    with recorded() as operations:
        assert (await bedrock("GetJob", name="*")).line == "404 No job found"
    assert operations == TAKE


async def test_a_waiting_client(bedrock: BedrockCommands, recorded: Recorder) -> None:
    await bedrock.create()
    with recorded() as operations:
        await bedrock.get(connection="wait")
    assert operations == TAKE


@pytest.mark.parametrize(
    ("rule", "expected"), [("+1 HOUR", TAKE), ("+1 MONTH, START OF MONTH", TAKE_AND_DETAILS)], ids=["fixed", "calendar"]
)
async def test_a_job_with_retry_after(
    bedrock: BedrockCommands, recorded: Recorder, rule: str, expected: list[str]
) -> None:
    await bedrock.create("job", retryAfter=rule)
    with recorded() as operations:
        await bedrock.get("job")
    assert operations == expected


@pytest.mark.parametrize(
    ("rule", "expected"), [("+1 HOUR", TAKE), ("+1 MONTH, START OF MONTH", TAKE_AND_DETAILS)], ids=["fixed", "calendar"]
)
async def test_a_job_with_a_timeout(
    bedrock: BedrockCommands, recorded: Recorder, rule: str, expected: list[str]
) -> None:
    await bedrock.create("job", jobTimeout=rule)
    with recorded() as operations:
        await bedrock.get("job")
    assert operations == expected


async def test_a_default_timeout(bedrock: BedrockCommands, recorded: Recorder) -> None:
    """The take sets it."""
    limited = BedrockCommands(bedrock.service, job_timeout_ms=60_000)
    await limited.create("job")
    with recorded() as operations:
        assert (await limited.get("job"))["expires"]
    assert operations == TAKE
    await limited.router.close()


async def test_a_job_of_another_dialect(bedrock: BedrockCommands, recorded: Recorder) -> None:
    """It has no number, and its lease has a deadline."""
    await bedrock.create("first")
    await _enqueue(bedrock, name="job", lease_ms=1_000)
    with recorded() as operations:
        assert (await bedrock.get("job"))["jobID"] == 2
    assert operations == TAKE_AND_DETAILS


async def test_a_child(bedrock: BedrockCommands, recorded: Recorder) -> None:
    parent, _ = await bedrock.parent_and_child()
    await bedrock.ok("FinishJob", jobID=parent)
    with recorded() as operations:
        assert (await bedrock.get("child"))["parentJobID"] == parent
    assert operations == TAKE_AND_DETAILS


async def test_everything_at_once(bedrock: BedrockCommands, recorded: Recorder) -> None:
    """A job of another dialect with a deadline, a parent and an ended child, none of which has a number."""
    await bedrock.create("first")
    top = await _enqueue(bedrock, name="top", payload=Blob(b'{"t":1}'))
    await bedrock.service.take(Take(queues=("bedrock",), most=2))
    middle = await _enqueue(bedrock, name="middle", parent=top, lease_ms=60_000)
    (job,) = (await bedrock.service.take(Take(queues=("bedrock",)))).jobs
    assert job.id == middle
    await _enqueue(bedrock, name="low", parent=middle, payload=Blob(b'{"l":1}'))
    (low,) = (await bedrock.service.take(Take(queues=("bedrock",)))).jobs
    await bedrock.service.finish([Finish(low.id, low.lease_token)])
    await bedrock.router.release_jobs(((job.id, job.lease_token),))
    with recorded() as operations:
        row = await bedrock.get("middle")
    assert operations == TAKE_AND_DETAILS
    assert (row["parentData"], [child["data"] for child in row["finishedChildJobs"]]) == ({"t": 1}, [{"l": 1}])
    assert len({row["jobID"], row["parentJobID"], row["finishedChildJobs"][0]["jobID"]}) == 3


@pytest.mark.parametrize(("count", "pages"), [(3, 1), (1_200, 3)])
async def test_a_parent_with_ended_children(
    bedrock: BedrockCommands, recorded: Recorder, count: int, pages: int
) -> None:
    parent = await _finished_children(bedrock, count)
    with recorded() as operations:
        row = await bedrock.get("parent")
    assert operations == TAKE + ["taken_details"] * pages
    assert row["jobID"] == parent
    assert [child["data"]["n"] for child in row["finishedChildJobs"]] == list(range(count))


async def test_several_jobs(bedrock: BedrockCommands, recorded: Recorder) -> None:
    """Plain jobs, jobs of other dialects, children of two parents, and parents."""
    await bedrock.ok("CreateJobs", jobs=[{"name": "job"} for _ in range(20)])
    with recorded() as operations:
        assert len((await bedrock.ok("GetJobs", name="job", numResults=20)).body["jobs"]) == 20
    assert operations == TAKE
    parents = [await _finished_children(bedrock, 2), await bedrock.running("other parent")]
    await bedrock.ok("CreateJobs", jobs=[{"name": "kid", "parentJobID": parents[1]} for _ in range(5)])
    await bedrock.ok("FinishJob", jobID=parents[1])
    await bedrock.create("job", retryAfter="+1 MONTH")
    await bedrock.create("job", retryAfter="+1 YEAR")
    await _enqueue(bedrock, name="job", lease_ms=5_000)
    with recorded() as operations:
        rows = (await bedrock.ok("GetJobs", name="*", numResults=100)).body["jobs"]
    assert sorted(row["name"] for row in rows) == ["job"] * 3 + ["kid"] * 5 + ["parent"]
    assert operations == TAKE_AND_DETAILS


async def test_create_job(bedrock: BedrockCommands, recorded: Recorder) -> None:
    await bedrock.create()
    with recorded() as operations:
        await bedrock.create(data={"a": 1}, retryAfter="+1 HOUR")
    assert operations == ["enqueue"]
