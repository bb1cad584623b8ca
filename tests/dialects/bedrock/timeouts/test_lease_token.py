"""leaseToken: a late report of a worker that lost its job is refused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.dialects.bedrock.command_router import BedrockCommands
from windlass.core.errors import StaleLease
from windlass.core.operations import Edit

pytestmark = pytest.mark.anyio
only_valkey = pytest.mark.parametrize("engine", ["valkey"], indirect=True)
LOST = "405 The lease of this leaseToken has ended; nothing was changed"
REPORTS: list[tuple[str, dict[str, Any]]] = [
    ("UpdateJob", {"data": {"late": 1}, "repeat": "DAILY"}),
    ("FinishJob", {"data": {"late": 1}}),
    ("RetryJob", {"data": {"late": 1}, "name": "other"}),
    ("FailJob", {"data": {"late": 1}}),
]


async def expired(bedrock: BedrockCommands, **given: Any) -> tuple[int, int]:
    """Return a job that its first worker has lost, and the token of that worker."""
    number = await bedrock.create("job", **({"jobTimeout": "+1 MINUTE"} | given))
    token = int((await bedrock.get("job", leaseToken="true"))["leaseToken"])
    bedrock.advance(61)
    return number, token


@pytest.mark.parametrize(("verb", "given"), REPORTS)
async def test_a_late_report_is_refused_while_another_worker_has_the_job(
    bedrock: BedrockCommands, verb: str, given: dict[str, Any]
) -> None:
    number, old = await expired(bedrock)
    new = (await bedrock.get("job", leaseToken="true"))["leaseToken"]
    assert new != old
    before = await bedrock.query(number)
    assert (await bedrock(verb, jobID=number, leaseToken=old, **given)).line == LOST
    assert await bedrock.query(number) == before
    await bedrock.ok(verb, jobID=number, leaseToken=new, **given)


@only_valkey
@pytest.mark.parametrize("rule", [{}, {"jobTimeout": None, "retryAfter": "+1 MINUTE"}], ids=["timeout", "retryAfter"])
@pytest.mark.parametrize(("verb", "given"), REPORTS)
async def test_without_a_token_reports_are_accepted_as_before(
    bedrock: BedrockCommands, verb: str, given: dict[str, Any], rule: dict[str, Any]
) -> None:
    number, _ = await expired(bedrock, **rule)
    await bedrock.get("job")
    await bedrock.ok(verb, jobID=number, **given)


@only_valkey
@pytest.mark.parametrize(("verb", "given"), REPORTS)
async def test_a_late_report_on_a_job_that_is_queued_again(
    bedrock: BedrockCommands, verb: str, given: dict[str, Any]
) -> None:
    number, old = await expired(bedrock)
    await bedrock.service.recover()
    before = await bedrock.query(number)
    assert (await bedrock(verb, jobID=number, leaseToken=old, **given)).line == LOST
    assert await bedrock.query(number) == before


@only_valkey
async def test_after_the_end_of_the_job(bedrock: BedrockCommands) -> None:
    number, old = await expired(bedrock)
    await bedrock.get("job")
    await bedrock.ok("FinishJob", jobID=number)
    assert (await bedrock("FinishJob", jobID=number, leaseToken=old)).line == "404 No job with this jobID"


@only_valkey
async def test_retry_after(bedrock: BedrockCommands) -> None:
    """A worker that is late may report until another one has the job, as without a token."""
    number, old = await expired(bedrock, jobTimeout=None, retryAfter="+1 MINUTE")
    await bedrock.service.recover()
    assert await bedrock.state(number) == "RUNQUEUED"
    await bedrock.ok("UpdateJob", jobID=number, leaseToken=old, data={"a": 1})
    await bedrock.get("job")
    assert (await bedrock("FinishJob", jobID=number, leaseToken=old)).line == LOST


@only_valkey
async def test_mocked_jobs_and_jobs_without_a_timeout(bedrock: BedrockCommands) -> None:
    mocked = await bedrock.create("job", mockRequest="")
    assert (await bedrock("FinishJob", jobID=mocked, leaseToken=5)).line == LOST
    number = await bedrock.create("plain")
    token = (await bedrock.get("plain", leaseToken="1"))["leaseToken"]
    assert (await bedrock("FinishJob", jobID=number, leaseToken=token + 1)).line == LOST
    await bedrock.ok("FinishJob", jobID=number, leaseToken=token)


@only_valkey
@pytest.mark.parametrize("wrong", ["x", "-1", "0", "1.5", "+1", "0x1", "9" * 30, "true"])
@pytest.mark.parametrize(("verb", "given"), REPORTS)
async def test_malformed_tokens(bedrock: BedrockCommands, verb: str, given: dict[str, Any], wrong: str) -> None:
    number = await bedrock.running("job")
    assert (await bedrock(verb, jobID=number, leaseToken=wrong, **given)).line == "402 Malformed leaseToken"
    assert await bedrock.state(number) == "RUNNING"


@only_valkey
@pytest.mark.parametrize(
    ("asked", "is_shown"),
    [("true", True), ("1", True), ("yes", True), ("", True), (None, False), ("false", False), ("0", False)],
)
async def test_tokens_are_shown_on_request(bedrock: BedrockCommands, asked: str | None, is_shown: bool) -> None:
    await bedrock.ok("CreateJobs", jobs=[{"name": "job"}] * 3)
    assert ("leaseToken" in await bedrock.get("job", leaseToken=asked)) is is_shown
    rows = (await bedrock.ok("GetJobs", name="job", numResults=2, leaseToken=asked)).body["jobs"]
    tokens = {row.get("leaseToken") for row in rows}
    assert len(tokens) == 2 if is_shown else tokens == {None}


async def test_an_update_that_meets_another_lease(bedrock: BedrockCommands) -> None:
    """The engine compares the token in the step that writes: the job may change hands after it was read."""
    number, old = await expired(bedrock)
    await bedrock.get("job")
    job_id = bedrock.service.numbered_id("bedrock", number)
    edit = Edit(id=job_id, priority=5, in_any_state=True, if_token=old)
    with pytest.raises(StaleLease):
        await bedrock.service.edit([edit]).one()
    assert (await bedrock.query(number))["priority"] == 500


@only_valkey
async def test_many_workers_and_one_lease(bedrock: BedrockCommands) -> None:
    """Of all workers that had the job, only the last one finishes it."""
    number = await bedrock.create("job", jobTimeout="+1 MINUTE", repeat="FINISHED, +1 DAY")
    tokens = []
    for _ in range(10):
        tokens.append((await bedrock.get("job", leaseToken="true"))["leaseToken"])
        bedrock.advance(61)
    bedrock.advance(-61)
    reports = [bedrock("FinishJob", jobID=number, leaseToken=token, data={"by": token}) for token in tokens]
    lines = [result.line for result in await asyncio.gather(*reports)]
    assert lines == [LOST] * 9 + ["200 OK"]
    assert (await bedrock.query(number))["data"] == {"by": tokens[-1]}
