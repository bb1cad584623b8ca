"""jobTimeout: a job that its worker does not report on in time is queued again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.dialects.bedrock.command_router import BedrockCommands
from windlass import Windlass, Worker
from windlass.core.job import NewJob
from windlass.core.operations import Extended, LeaseRef, Take
from windlass.dialects.bedrock.times import parse_instant
from windlass.store.store import Store

pytestmark = pytest.mark.anyio
only_valkey = pytest.mark.parametrize("engine", ["valkey"], indirect=True)


def seconds_between(first: str, second: str) -> float:
    start, end = parse_instant(first), parse_instant(second)
    assert start is not None
    assert end is not None
    return (end - start) / 1000


async def test_an_expired_job_is_queued_again(bedrock: BedrockCommands) -> None:
    number = await bedrock.create("job", jobTimeout="+5 MINUTES", data={"a": 1})
    queued = await bedrock.query(number)
    assert (queued["timeout"], queued["expires"], queued["retryAfter"]) == ("+5 MINUTES", "", "")
    taken = await bedrock.get("job")
    row = await bedrock.query(number)
    assert row["state"] == "RUNNING"
    assert row["nextRun"] == queued["nextRun"]
    assert row["expires"] == taken["expires"]
    assert 299 <= seconds_between(row["lastRun"], row["expires"]) <= 300
    bedrock.advance(298)
    assert (await bedrock("GetJob", name="job")).line == "404 No job found"
    bedrock.advance(3)
    again = await bedrock.get("job")
    assert (again["jobID"], again["data"], again["lastRun"]) == (number, {"a": 1}, row["lastRun"])
    assert seconds_between(row["expires"], again["expires"]) >= 300
    await bedrock.ok("FinishJob", jobID=number)
    assert await bedrock.state(number) == "gone"


async def test_the_recoverer_queues_it_again_without_a_taker(bedrock: BedrockCommands) -> None:
    number = await bedrock.running("job", jobTimeout="+90 SECONDS", repeat="FINISHED, +1 DAY")
    bedrock.advance(91)
    await bedrock.service.recover()
    row = await bedrock.query(number)
    assert (row["state"], row["expires"], row["timeout"]) == ("QUEUED", "", "+90 SECONDS")
    assert (await bedrock("FinishJob", jobID=number)).line == "405 Can only retry/finish RUNNING and RUNQUEUED jobs"
    found = {finding.code for finding in (await bedrock.service.doctor()).findings}
    assert found <= {"no_persistence", "loops_behind"}


async def test_deliveries_are_neither_counted_nor_limited(bedrock: BedrockCommands) -> None:
    """A job with retryAfter has ten deliveries, which are counted in its data."""
    await bedrock.create("job", jobTimeout="+1 MINUTE")
    for _ in range(15):
        assert (await bedrock.get("job"))["data"] == {}
        bedrock.advance(61)


@only_valkey
@pytest.mark.parametrize(
    ("rule", "now", "expires"),
    [
        ("+1 MONTH, START OF MONTH", "2030-05-17 10:00:00", "2030-06-01 00:00:00"),
        ("START OF HOUR, +1 HOUR", "2030-05-17 10:59:40", "2030-05-17 11:00:00"),
        ("+1 DAY, WEEKDAY 1, START OF DAY", "2030-05-17 10:00:00", "2030-05-20 00:00:00"),
        ("+1 YEAR", "2030-05-17 10:00:00", "2031-05-17 10:00:00"),
    ],
)
async def test_a_timeout_that_depends_on_the_calendar(
    bedrock: BedrockCommands, rule: str, now: str, expires: str
) -> None:
    await bedrock.create("job", jobTimeout=rule)
    bedrock.advance(((parse_instant(now) or 0) - await bedrock.service.now()) / 1000)
    taken = await bedrock.get("job")
    assert (taken["timeout"], taken["expires"]) == (rule, expires)
    row = await bedrock.query(taken["jobID"])
    assert (row["state"], row["expires"]) == ("RUNNING", expires)
    bedrock.advance(seconds_between(now, expires) - 5)
    assert (await bedrock("GetJob", name="job")).line == "404 No job found"
    bedrock.advance(6)
    assert (await bedrock.get("job"))["jobID"] == taken["jobID"]


@only_valkey
@pytest.mark.parametrize("rule", ["+999 YEARS", "+99999999 SECONDS, " * 12 + "+999 DAYS"])
async def test_the_longest_timeouts(bedrock: BedrockCommands, rule: str) -> None:
    number = await bedrock.running("job", jobTimeout=rule)
    row = await bedrock.query(number)
    assert row["expires"] > "2060"
    assert (await bedrock.ok("Query", query="SELECT expires FROM jobs;")).body == [[row["expires"]]]


@only_valkey
@pytest.mark.parametrize(
    "rule", ["+5 MINUTES" + " " * 300, "+5 MINUTES, " * 30, "+5 MINUTES,", "5", "+5 FORTNIGHTS", "é"]
)
async def test_malformed_timeouts(bedrock: BedrockCommands, rule: str) -> None:
    assert (await bedrock("CreateJob", name="job", jobTimeout=rule + "x")).line == "402 Malformed jobTimeout"
    jobs = [{"name": "good"}, {"name": "job", "timeout": rule + "x"}]
    assert (await bedrock("CreateJobs", jobs=jobs)).line == "402 Malformed jobTimeout"
    assert (await bedrock.ok("Query", query="SELECT count(*) FROM jobs;")).body == [[0]]


@only_valkey
async def test_retry_after_that_ends_within_the_first_minute(bedrock: BedrockCommands) -> None:
    """The lease that the engine gives at first is longer."""
    await bedrock.create("job", retryAfter="START OF HOUR, +1 HOUR")
    bedrock.advance(((parse_instant("2030-05-17 10:59:40") or 0) - await bedrock.service.now()) / 1000)
    number = (await bedrock.get("job"))["jobID"]
    assert (await bedrock.query(number))["nextRun"] == "2030-05-17 11:00:00"


@only_valkey
async def test_a_waiting_worker_gets_an_expired_job(bedrock: BedrockCommands) -> None:
    await bedrock.running("job", jobTimeout="+2 SECONDS")
    assert (await bedrock.get("job", connection="wait", timeout=20_000))["name"] == "job"


@only_valkey
@pytest.mark.parametrize("key", ["timeout", "jobTimeout", "TIMEOUT", "jobtimeout"])
async def test_the_objects_of_create_jobs(bedrock: BedrockCommands, key: str) -> None:
    """A header `timeout` is that of the command, also here."""
    jobs = [{"name": "a", key: "+5 MINUTES"}, {"name": "b", key: None}, {"name": "c", key: ""}]
    numbers = (await bedrock.ok("CreateJobs", jobs=jobs, timeout=110_000)).body["jobIDs"]
    assert [(await bedrock.query(number)).get("timeout") for number in numbers] == ["+5 MINUTES", None, None]
    assert (await bedrock.get("b", timeout=110_000)).keys() == (await bedrock.get("c", timeout=5)).keys()


@only_valkey
async def test_with_repeat_and_unique(bedrock: BedrockCommands) -> None:
    """A repeated run has the same timeout. A unique job that exists keeps its own."""
    given: dict[str, Any] = {"repeat": "SCHEDULED, +1 HOUR", "unique": True, "firstRun": "2020-01-01 10:00:00"}
    number = await bedrock.create("job", jobTimeout="+5 MINUTES", **given)
    assert await bedrock.create("job", jobTimeout="+9 MINUTES", **given) == number
    for hour in (10, 11):
        taken = await bedrock.get("job")
        assert (taken["nextRun"], taken["timeout"]) == (f"2020-01-01 {hour}:00:00", "+5 MINUTES")
        await bedrock.ok("FinishJob", jobID=number)
    await bedrock.get("job")
    bedrock.advance(301)
    row = (await bedrock.get("job"))["nextRun"]
    assert row == "2020-01-01 12:00:00", "an expired run is not a run"


@only_valkey
async def test_commands_that_leave_the_timeout(bedrock: BedrockCommands) -> None:
    number = await bedrock.running("job", jobTimeout="+5 MINUTES")
    before = await bedrock.query(number)
    bedrock.advance(60)
    await bedrock.ok("UpdateJob", jobID=number, data={"p": 1}, jobTimeout="+1 HOUR", nextRun="2031-01-01")
    row = await bedrock.query(number)
    assert (row["timeout"], row["expires"]) == ("+5 MINUTES", before["expires"]), "UpdateJob is no heartbeat"
    await bedrock.ok("RetryJob", jobID=number)
    row = await bedrock.query(number)
    assert (row["state"], row["timeout"], row["expires"]) == ("QUEUED", "+5 MINUTES", "")
    await bedrock.get("job")
    await bedrock.ok("RequeueJobs", jobIDs=number)
    assert (await bedrock.query(number))["timeout"] == "+5 MINUTES"


@only_valkey
async def test_parents_and_children(bedrock: BedrockCommands) -> None:
    """A parent that expires keeps its held children; a child that expires keeps its parent PAUSED."""
    parent = await bedrock.running("parent", jobTimeout="+5 MINUTES")
    child = await bedrock.create("child", parentJobID=parent, jobTimeout="+1 MINUTE")
    bedrock.advance(301)
    assert (await bedrock.get("parent"))["jobID"] == parent
    assert await bedrock.state(child) == "PAUSED"
    await bedrock.ok("FinishJob", jobID=parent)
    for _ in range(2):
        assert (await bedrock.get("child"))["jobID"] == child
        assert await bedrock.state(parent) == "PAUSED"
        bedrock.advance(61)
    await bedrock.get("child")
    await bedrock.ok("FinishJob", jobID=child)
    assert (await bedrock.get("parent"))["finishedChildJobs"] == [{"data": {}, "jobID": child}]


@only_valkey
async def test_a_mocked_job_expires(bedrock: BedrockCommands) -> None:
    number = await bedrock.running("job", jobTimeout="+1 MINUTE", mockRequest="x")
    bedrock.advance(61)
    await bedrock.service.recover()
    assert await bedrock.state(number) == "QUEUED"


@only_valkey
async def test_a_job_that_was_not_delivered_is_released(bedrock: BedrockCommands) -> None:
    number = await bedrock.create("job", jobTimeout="+5 MINUTES")
    result = await bedrock.ok("GetJob", name="job")
    await bedrock.router.release_jobs(result.reply.jobs)
    assert await bedrock.state(number) == "QUEUED"


async def test_another_dialect_gets_a_lease_of_that_length_and_renews_it(bedrock: BedrockCommands) -> None:
    number = await bedrock.create("job", jobTimeout="+5 MINUTES")
    (job,) = (await bedrock.service.take(Take(queues=("bedrock",)))).jobs
    assert job.started_at_ms is not None
    assert job.lease_deadline_at_ms is not None
    assert 299_000 <= job.lease_deadline_at_ms - job.started_at_ms <= 300_000
    first = (await bedrock.query(number))["expires"]
    for _ in range(3):
        bedrock.advance(200)
        extended = await bedrock.service.extend([LeaseRef(job.id, job.lease_token)]).one()
        assert isinstance(extended, Extended)
    assert seconds_between(first, (await bedrock.query(number))["expires"]) >= 599
    bedrock.advance(301)
    await bedrock.service.recover()
    assert await bedrock.state(number) == "QUEUED"


@only_valkey
async def test_a_job_of_another_dialect_with_a_rule(bedrock: BedrockCommands) -> None:
    """GetJob gives it the time of the rule, whatever lease it has for workers that renew it."""
    job = NewJob(queue="bedrock", name="job", lease_ms=1_000, lease_rule="+10 MINUTES")
    await bedrock.create("first")
    await bedrock.service.enqueue([job])
    taken = await bedrock.get("job")
    assert taken["timeout"] == "+10 MINUTES"
    assert (await bedrock.query(taken["jobID"]))["expires"] == taken["expires"]
    bedrock.advance(590)
    await bedrock.service.recover()
    assert await bedrock.state(taken["jobID"]) == "RUNNING"
    bedrock.advance(11)
    await bedrock.service.recover()
    assert await bedrock.state(taken["jobID"]) == "QUEUED"


@only_valkey
async def test_many_expire_at_once(bedrock: BedrockCommands) -> None:
    jobs = [{"name": "job", "timeout": "+1 MINUTE", "data": at} for at in range(300)]
    await bedrock.ok("CreateJobs", jobs=jobs)
    taken = await asyncio.gather(*(bedrock.ok("GetJobs", name="job", numResults=100) for _ in range(3)))
    assert sum(len(result.body["jobs"]) for result in taken) == 300
    bedrock.advance(61)
    for _ in range(2):
        await bedrock.service.recover()
    result = await bedrock.ok("Query", query="SELECT state, count(*) FROM jobs GROUP BY state;")
    assert result.body == [["QUEUED", 300]]


@only_valkey
async def test_an_sdk_worker_renews_the_lease(bedrock: BedrockCommands, store: Store) -> None:
    """The code runs longer than the timeout: the heartbeat of the worker keeps the job."""
    app = Windlass()
    app.connect(store)
    seen: list[str] = []

    @app.task(name="slow", queue="bedrock")
    async def slow(who: str) -> None:
        seen.append(f"{who} starts")
        await asyncio.sleep(4.5)
        seen.append(f"{who} ends")

    number = await bedrock.create("slow", data={"who": "ann"}, jobTimeout="+3 SECONDS")
    await Worker(app, queues=["bedrock"], concurrency=1, burst=True).run()
    app.close()
    assert seen == ["ann starts", "ann ends"]
    assert await bedrock.state(number) == "gone"
