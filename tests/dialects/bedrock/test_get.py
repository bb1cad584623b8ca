"""GetJob and GetJobs: order of jobs, fields of the reply, waiting, and undelivered jobs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.dialects.bedrock.command_router import BedrockCommands, make_request
from windlass.core.job import NewJob
from windlass.core.operations import Filter

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

NOTHING = "404 No job found"


@pytest.mark.parametrize(
    ("verb", "given", "line"),
    [
        ("GetJob", {}, "402 Missing name"),
        ("GetJobs", {"numResults": 1}, "402 Missing name"),
        ("GetJobs", {}, "402 Missing name"),
        ("GetJobs", {"name": "*"}, "402 Missing numResults"),
        ("GetJobs", {"name": "*", "numResults": "many"}, "402 Malformed numResults"),
        ("GetJob", {"name": "*", "numResults": 1}, "402 Cannot use numResults with GetJob; try GetJobs"),
        ("GetJob", {"name": "*", "jobPriority": 7}, "402 Invalid priority value"),
        ("GetJobs", {"name": "*", "numResults": 1, "jobPriority": "x"}, "402 Invalid priority value"),
        ("GetJob", {"name": "n" * 12_751}, "402 Malformed name"),
        ("GetJob", {"name": "*" * 20}, "402 Malformed name"),
        ("GetJob", {"name": "*"}, NOTHING),
        ("GetJobs", {"name": "*", "numResults": 5}, NOTHING),
    ],
)
async def test_refused_parameters(bedrock: BedrockCommands, verb: str, given: dict[str, Any], line: str) -> None:
    assert (await bedrock(verb, **given)).line == line


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("a/b", ["a/b"]),
        ("a*", ["a/b", "a/c/d", "ab"]),
        ("a/?", ["a/b"]),
        ("*/[b-c]", ["a/b"]),
        ("a[^/]", ["ab"]),
        ("A*", ["Ax"]),
        ("a/b, ab", ["a/b", "ab"]),
        ("a/b,,ab,", ["a/b", "ab"]),
        ("a*,ab", ["ab"]),
        ("*", ["a/b", "a/c/d", "ab", "Ax"]),
    ],
)
async def test_names(bedrock: BedrockCommands, wanted: str, found: list[str]) -> None:
    await bedrock.ok("CreateJobs", jobs=[{"name": name} for name in ("a/b", "a/c/d", "ab", "Ax")])
    jobs = (await bedrock.ok("GetJobs", name=wanted, numResults=9)).body["jobs"]
    assert [job["name"] for job in jobs] == found


async def test_the_order(bedrock: BedrockCommands) -> None:
    jobs = [
        {"name": "low", "jobPriority": 0},
        {"name": "second"},
        {"name": "first", "firstRun": "2001-01-01"},
        {"name": "third"},
        {"name": "later", "jobPriority": 1000, "firstRun": "2999-01-01"},
        {"name": "high", "jobPriority": 1000},
    ]
    await bedrock.ok("CreateJobs", jobs=jobs)
    found = (await bedrock.ok("GetJobs", name="*", numResults=9)).body["jobs"]
    assert [job["name"] for job in found] == ["high", "first", "second", "third", "low"]


async def test_an_exact_priority(bedrock: BedrockCommands) -> None:
    for priority in (0, 500, 1000):
        await bedrock.create("job", jobPriority=priority)
        await bedrock.create("hidden", jobPriority=priority, mockRequest="")
    assert (await bedrock.get("*", jobPriority=500))["priority"] == 500
    assert (await bedrock("GetJob", name="*", jobPriority=500)).line == NOTHING
    assert (await bedrock.get("*", jobPriority=500, mockRequest=""))["name"] == "hidden"


async def test_a_result_count_below_one_means_one(bedrock: BedrockCommands) -> None:
    await bedrock.create()
    await bedrock.create()
    assert len((await bedrock.ok("GetJobs", name="*", numResults=-3)).body["jobs"]) == 1


async def test_the_row_shows_the_job_before_the_take(bedrock: BedrockCommands) -> None:
    number = await bedrock.create("job", data={"a": 1}, firstRun="2020-01-01", repeat="SCHEDULED, +1 DAY")
    result = await bedrock.ok("GetJob", name="job")
    row = result.body
    assert list(row) == sorted(row, key=str.lower)
    assert row == {
        "created": row["created"], "data": {"a": 1}, "jobID": number, "lastRun": "", "name": "job",
        "nextRun": "2020-01-01", "priority": 500, "repeat": "SCHEDULED, +1 DAY", "retryAfter": "",
    }  # fmt: skip
    shown = await bedrock.query(number)
    assert shown["state"] == "RUNNING"
    assert shown["lastRun"] != ""
    await bedrock.ok("FinishJob", jobID=number)
    again = await bedrock.get("job")
    assert (again["nextRun"], again["lastRun"]) == ("2020-01-02 00:00:00", shown["lastRun"])


async def test_a_child_knows_its_parent_and_a_parent_its_children(bedrock: BedrockCommands) -> None:
    parent = await bedrock.running("parent", data={"p": 1})
    finished, cancelled, failed = [
        await bedrock.create(name, parentJobID=parent) for name in ("finished", "cancelled", "failed")
    ]
    await bedrock.ok("FinishJob", jobID=parent)
    await bedrock.ok("CancelJob", jobID=cancelled)
    row = await bedrock.get("finished")
    assert (row["parentJobID"], row["parentData"]) == (parent, {"p": 1})
    await bedrock.ok("FinishJob", jobID=finished, data={"done": True})
    await bedrock.get("failed")
    await bedrock.ok("FailJob", jobID=failed)
    again = await bedrock.get("parent")
    assert again["finishedChildJobs"] == [{"data": {"done": True}, "jobID": finished}]
    assert again["cancelledChildJobs"] == [{"data": {}, "jobID": cancelled}]
    assert list(again) == sorted(again, key=str.lower)


async def test_a_job_without_children_has_no_child_fields(bedrock: BedrockCommands) -> None:
    await bedrock.create()
    assert not {"parentJobID", "parentData", "finishedChildJobs"} & (await bedrock.get()).keys()


# retryAfter


async def test_a_job_with_an_expired_lease_is_delivered_again(bedrock: BedrockCommands) -> None:
    number = await bedrock.create("job", retryAfter="+1 HOUR")
    first = await bedrock.get("job")
    assert first["data"] == {}
    row = await bedrock.query(number)
    assert (row["state"], row["data"], row["retryAfter"]) == ("RUNQUEUED", {"retryAfterCount": 1}, "+1 HOUR")
    assert row["nextRun"] > row["lastRun"]
    assert (await bedrock("GetJob", name="job")).line == NOTHING
    bedrock.advance(3601)
    second = await bedrock.get("job")
    assert (second["data"], second["nextRun"], second["lastRun"]) == (
        {"retryAfterCount": 1}, row["nextRun"], row["lastRun"],
    )  # fmt: skip
    assert (await bedrock.query(number))["data"] == {"retryAfterCount": 2}


async def test_ten_deliveries_at_most(bedrock: BedrockCommands) -> None:
    number = await bedrock.create("job", retryAfter="+0 SECOND")
    for delivered in range(10):
        assert (await bedrock.get("job"))["data"] == ({"retryAfterCount": delivered} if delivered else {})
    assert (await bedrock("GetJob", name="job")).text == "{}"
    assert (await bedrock.query(number))["state"] == "FAILED"
    assert (await bedrock("GetJob", name="job")).line == NOTHING


async def test_used_up_jobs_leave_an_empty_list(bedrock: BedrockCommands) -> None:
    await bedrock.create("job", retryAfter="+0 SECOND")
    for _ in range(10):
        await bedrock.get("job")
    assert (await bedrock.ok("GetJobs", name="job", numResults=3)).text == '{"jobs":[]}'


async def test_manual_jobs_are_not_counted(bedrock: BedrockCommands) -> None:
    await bedrock.create("manual/x", retryAfter="+0 SECOND")
    for _ in range(12):
        assert (await bedrock.get("manual*"))["data"] == {}


async def test_a_lease_of_the_calendar(bedrock: BedrockCommands) -> None:
    number = await bedrock.create("job", retryAfter="+1 MONTH, START OF MONTH")
    await bedrock.get("job")
    assert (await bedrock.query(number))["nextRun"].endswith("-01 00:00:00")
    bedrock.advance(120)
    assert (await bedrock("GetJob", name="job")).line == NOTHING


async def test_jobs_without_retry_after_are_delivered_once(bedrock: BedrockCommands) -> None:
    number = await bedrock.running()
    bedrock.advance(10 * 365 * 86_400)
    await bedrock.service.recover()
    assert (await bedrock("GetJob", name="*")).line == NOTHING
    assert await bedrock.state(number) == "RUNNING"


# Waiting


async def test_a_wait_that_finds_nothing(bedrock: BedrockCommands) -> None:
    assert (await bedrock("GetJob", name="job", connection="wait", timeout=20)).line == "303 Timeout"
    assert (await bedrock("GetJobs", name="job", numResults=2, Connection="WAIT", timeout=20)).line == "303 Timeout"


async def _waiting(bedrock: BedrockCommands, name: str, **given: Any) -> asyncio.Task[dict[str, Any]]:
    """Start a waiting GetJob, and wait until the engine knows of it."""
    before = (await bedrock.service.stats(["bedrock"]))[0].waiting_takers
    task = asyncio.create_task(bedrock.get(name, connection="wait", **given))
    await bedrock.wait_for_takers(before + 1)
    return task


async def test_a_wait_ends_when_a_job_comes(bedrock: BedrockCommands) -> None:
    running = await bedrock.running("runs")
    parent, child = await bedrock.parent_and_child()
    failed = await bedrock.running("failed")
    await bedrock.ok("FailJob", jobID=failed)
    scheduled = await bedrock.create("scheduled", firstRun="2999-01-01")
    repeats = await bedrock.running("repeats", repeat="STARTED, -1 DAY")
    for name, verb, given in (
        ("new", "CreateJob", {"name": "new"}),
        ("many", "CreateJobs", {"jobs": [{"name": "many"}]}),
        ("runs", "RetryJob", {"jobID": running}),
        ("child", "FinishJob", {"jobID": parent}),
        ("parent", "FinishJob", {"jobID": child}),
        ("failed", "RequeueJobs", {"jobIDs": failed}),
        ("scheduled", "UpdateJob", {"jobID": scheduled, "data": {}, "nextRun": "2001-01-01"}),
        ("repeats", "FinishJob", {"jobID": repeats}),
    ):
        task = await _waiting(bedrock, name)
        await bedrock.ok(verb, **given)
        assert (await task)["name"] == name


async def test_a_cancelled_child_wakes_a_getjob_for_the_parent(bedrock: BedrockCommands) -> None:
    parent, child = await bedrock.parent_and_child()
    await bedrock.ok("FinishJob", jobID=parent)
    task = await _waiting(bedrock, "parent")
    await bedrock.ok("CancelJob", jobID=child)
    assert (await task)["cancelledChildJobs"] == [{"data": {}, "jobID": child}]


async def test_a_wait_ends_when_the_time_has_come(bedrock: BedrockCommands) -> None:
    await bedrock.create("job", retryAfter="+1 SECOND")
    await bedrock.get("job")
    assert (await bedrock.get("job", connection="wait", timeout=10_000))["data"] == {"retryAfterCount": 1}


async def test_one_waiter_gets_it(bedrock: BedrockCommands) -> None:
    tasks = [await _waiting(bedrock, "job*")]
    tasks += [asyncio.create_task(bedrock.get("job*", connection="wait")) for _ in range(4)]
    number = await bedrock.create("job")
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    assert [task.result()["jobID"] for task in done] == [number]
    more = [await bedrock.create("job") for _ in pending]
    assert sorted([(await task)["jobID"] for task in pending]) == more


async def test_a_waiter_that_is_gone_consumes_nothing(bedrock: BedrockCommands) -> None:
    for _ in range(20):
        task = await _waiting(bedrock, "job", timeout=60_000)
        creating = asyncio.create_task(bedrock.create("job"))
        await asyncio.sleep(0)
        task.cancel()
        number = await creating
        try:
            taken = (await task)["jobID"]
        except asyncio.CancelledError:
            taken = (await bedrock.get("job", connection="wait", timeout=10_000))["jobID"]
        assert taken == number
        await bedrock.ok("FinishJob", jobID=number)


# Jobs that nobody got


async def test_an_undelivered_reply_spends_nothing(bedrock: BedrockCommands) -> None:
    number = await bedrock.create("job", retryAfter="+0 SECOND")
    for _ in range(15):
        request = make_request("GetJob", {"name": "job"})
        reply = await bedrock.router.answer(request, bedrock.client)
        assert [job_id for job_id, _ in reply.jobs] == [bedrock.service.numbered_id("bedrock", number)]
        await bedrock.router.return_undelivered(request, reply)
        row = await bedrock.query(number)
        assert (row["state"], row["data"]) == ("QUEUED", {})


async def test_a_release_affects_only_its_lease(bedrock: BedrockCommands) -> None:
    number = await bedrock.create("job", retryAfter="+0 SECOND")
    lost = (await bedrock("GetJob", name="job")).reply
    taken = (await bedrock("GetJob", name="job")).reply
    await bedrock.router.release_jobs(lost.jobs)
    assert await bedrock.state(number) == "RUNQUEUED", "it is another's by now"
    await bedrock.ok("FinishJob", jobID=number)
    await bedrock.router.release_jobs(taken.jobs)
    assert await bedrock.state(number) == "gone"


async def test_a_job_that_is_deleted_before_it_gets_a_number_is_not_shown(bedrock: BedrockCommands) -> None:
    await bedrock.create("first")
    await bedrock.service.enqueue([NewJob(queue="bedrock", name="job")])
    get = bedrock.router._get
    taken = await get._takes.take(("bedrock",), Filter(only=("job",)), 1, 0)
    await bedrock.service.delete([taken.jobs[0].id], even_leased=True)
    assert await get._rows(taken, bedrock.client.principal, with_token=False) == []


async def test_a_reply_lists_the_jobs_that_were_reported_on(bedrock: BedrockCommands) -> None:
    """A connection must forget the leases of jobs that were reported on."""
    for verb in ("FinishJob", "RetryJob", "FailJob"):
        number = await bedrock.running()
        result = await bedrock.ok(verb, jobID=number)
        assert result.reply.settled == (bedrock.service.numbered_id("bedrock", number),)
        await bedrock.ok("DeleteJob", jobID=number) if verb != "FinishJob" else None
