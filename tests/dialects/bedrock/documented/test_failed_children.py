"""failedChildJobs: a parent that resumes after a failed child sees it."""

from __future__ import annotations

import pytest

from tests.dialects.bedrock.command_router import BedrockCommands
from windlass.core.access.tokens import Principal, Role
from windlass.core.job import Blob, NewJob
from windlass.core.operations import Fail, Take
from windlass.core.retry import Backoff

pytestmark = pytest.mark.anyio
only_valkey = pytest.mark.parametrize("engine", ["valkey"], indirect=True)


async def children(bedrock: BedrockCommands, count: int) -> tuple[int, list[int]]:
    """Return a PAUSED parent and its QUEUED children."""
    parent = await bedrock.running("parent")
    jobs = [{"name": "child", "parentJobID": parent, "data": {"n": at}} for at in range(count)]
    numbers = (await bedrock.ok("CreateJobs", jobs=jobs)).body["jobIDs"]
    await bedrock.ok("FinishJob", jobID=parent)
    return parent, numbers


async def test_finished_cancelled_and_failed_children(bedrock: BedrockCommands) -> None:
    parent, (finished, cancelled, failed) = await children(bedrock, 3)
    await bedrock.ok("CancelJob", jobID=cancelled)
    for _ in range(2):
        await bedrock.get("child")
    await bedrock.ok("FinishJob", jobID=finished, data={"found": 7})
    await bedrock.ok("FailJob", jobID=failed, data={"why": "x"})
    again = await bedrock.get("parent")
    assert again["finishedChildJobs"] == [{"data": {"found": 7}, "jobID": finished}]
    assert again["cancelledChildJobs"] == [{"data": {"n": 1}, "jobID": cancelled}]
    assert again["failedChildJobs"] == [{"data": {"why": "x"}, "jobID": failed}]
    await bedrock.ok("FinishJob", jobID=parent)
    assert [await bedrock.state(number) for number in (parent, finished, cancelled, failed)] == [
        "gone", "gone", "gone", "FAILED",
    ]  # fmt: skip


@only_valkey
async def test_without_a_failed_child_the_reply_is_as_before(bedrock: BedrockCommands) -> None:
    _, (child,) = await children(bedrock, 1)
    await bedrock.get("child")
    await bedrock.ok("FinishJob", jobID=child)
    assert "failedChildJobs" not in await bedrock.get("parent")


@only_valkey
async def test_a_failed_child_is_seen_until_it_is_deleted(bedrock: BedrockCommands) -> None:
    parent, (child,) = await children(bedrock, 1)
    await bedrock.get("child")
    await bedrock.ok("FailJob", jobID=child)
    for _ in range(2):
        assert (await bedrock.get("parent"))["failedChildJobs"] == [{"data": {"n": 0}, "jobID": child}]
        await bedrock.ok("RetryJob", jobID=parent)
    await bedrock.ok("DeleteJob", jobID=child)
    assert "failedChildJobs" not in await bedrock.get("parent")


@only_valkey
async def test_many_failed_children(bedrock: BedrockCommands) -> None:
    """More than one call to the engine returns."""
    _, numbers = await children(bedrock, 600)
    for _ in range(6):
        for row in (await bedrock.ok("GetJobs", name="child", numResults=100)).body["jobs"]:
            await bedrock.ok("FailJob", jobID=row["jobID"])
    (again,) = (await bedrock.ok("GetJobs", name="parent", numResults=5)).body["jobs"]
    assert [child["jobID"] for child in again["failedChildJobs"]] == numbers
    assert (again["finishedChildJobs"], again["cancelledChildJobs"]) == ([], [])


@only_valkey
async def test_a_child_that_failed_by_its_limit_of_deliveries(bedrock: BedrockCommands) -> None:
    parent = await bedrock.running("parent")
    child = await bedrock.create("child", parentJobID=parent, retryAfter="+0 SECOND")
    await bedrock.ok("FinishJob", jobID=parent)
    for _ in range(10):
        await bedrock.get("child")
    await bedrock.ok("GetJob", name="child")
    assert (await bedrock.get("parent"))["failedChildJobs"] == [{"data": {"retryAfterCount": 10}, "jobID": child}]


@only_valkey
async def test_failed_children_in_other_queues_are_for_tokens_of_these_queues(bedrock: BedrockCommands) -> None:
    parent = await bedrock.running("parent")
    secret = NewJob(
        queue="other", name="c", payload=Blob(b'{"x":"S3CRET"}'), retry=Backoff(tries=1),
        parent=bedrock.service.numbered_id("bedrock", parent),
    )  # fmt: skip
    await bedrock.service.enqueue([secret])
    await bedrock.ok("FinishJob", jobID=parent)
    (child,) = (await bedrock.service.take(Take(queues=("other",)))).jobs
    await bedrock.service.fail([Fail(id=child.id, token=child.lease_token, error=Blob(b'"S3CRET"'))])
    everyone = bedrock.client.principal
    bedrock.client.principal = Principal("limited", frozenset(Role), queues=("bedrock",))
    result = await bedrock.ok("GetJob", name="parent")
    assert "S3CRET" not in result.text
    assert "failedChildJobs" not in result.body
    bedrock.client.principal = everyone
    await bedrock.ok("RetryJob", jobID=parent)
    result = await bedrock.ok("GetJob", name="parent")
    assert [child["data"] for child in result.body["failedChildJobs"]] == [{"x": "S3CRET"}]
