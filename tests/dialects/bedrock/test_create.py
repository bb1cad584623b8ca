"""CreateJob and CreateJobs: checks in their order, unique jobs, parents and children, mocked jobs."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from tests.dialects.bedrock.command_router import BedrockCommands

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

SECOND = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
TWO_RULES = "402 Recurring auto-retrying jobs are not supported"
TWO_TIMEOUTS = "402 Cannot use jobTimeout with retryAfter; both end the time of a worker"
MALFORMED_DATA = "402 Data is not a valid JSON Object"


async def test_numbers_are_consecutive(bedrock: BedrockCommands) -> None:
    result = await bedrock.ok("CreateJob", name="foo", data={"value": 1}, repeat="finished, +1 minute")
    assert (result.text, result.reply.headers) == ('{"jobID":1}', (("jobID", "1"),))
    assert [await bedrock.create() for _ in range(3)] == [2, 3, 4]
    jobs = [{"name": "a"}, {"name": "b"}]
    assert (await bedrock.ok("CreateJobs", jobs=jobs)).text == '{"jobIDs":[5,6]}'


async def test_a_number_is_never_given_out_twice(bedrock: BedrockCommands) -> None:
    number = await bedrock.running()
    await bedrock.ok("FinishJob", jobID=number)
    assert await bedrock.create() == number + 1


async def test_a_new_job_has_all_defaults(bedrock: BedrockCommands) -> None:
    result = await bedrock.ok("QueryJob", jobID=await bedrock.create("foo"))
    row = result.body
    assert list(row) == sorted(row, key=str.lower)
    created = row.pop("created")
    assert SECOND.fullmatch(created)
    assert re.fullmatch(re.escape(created) + r"\.\d{3}", row.pop("nextRun"))
    assert row == {
        "data": {}, "jobID": 1, "lastRun": "", "name": "foo", "priority": 500, "repeat": "", "retryAfter": "",
        "state": "QUEUED",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({}, "402 Missing name"),
        ({"name": ""}, "402 Missing name"),
        ({"name": "n" * 256}, "402 Malformed name"),
        ({"name": "a\nb"}, "402 Malformed name"),
        ({"name": "n" * 256, "jobPriority": 5}, "402 Malformed name"),
        ({"name": "n", "jobPriority": 250}, "402 Invalid priority value"),
        ({"name": "n", "jobPriority": "high"}, "402 Invalid priority value"),
        ({"name": "n", "priority": 850}, "402 Invalid priority value"),
        ({"name": "n", "jobPriority": 1, "data": "x"}, "402 Invalid priority value"),
        ({"name": "n", "data": "[1,]"}, MALFORMED_DATA),
        ({"name": "n", "data": '{"a":1'}, MALFORMED_DATA),
        ({"name": "n", "data": "nil"}, MALFORMED_DATA),
        ({"name": "n", "data": "{" * 5000}, MALFORMED_DATA),
        ({"name": "n", "data": "x", "retryAfter": "10"}, MALFORMED_DATA),
        ({"name": "n", "retryAfter": "10"}, "402 Malformed retryAfter"),
        ({"name": "n", "retryAfter": "+1 DAY", "repeat": "DAILY"}, TWO_RULES),
        ({"name": "n", "retryAfter": "+1 DAY", "unique": True}, "405 Unique jobs can't be retried"),
        ({"name": "n", "retryAfter": "+1 DAY", "unique": "yes"}, "405 Unique jobs can't be retried"),
        ({"name": "n", "jobTimeout": "10"}, "402 Malformed jobTimeout"),
        ({"name": "n", "jobTimeout": "600000"}, "402 Malformed jobTimeout"),
        ({"name": "n", "jobTimeout": "+0 MINUTES"}, "402 Malformed jobTimeout"),
        ({"name": "n", "jobTimeout": "-5 MINUTES"}, "402 Malformed jobTimeout"),
        ({"name": "n", "jobTimeout": "+1 HOUR", "retryAfter": "+1 DAY"}, TWO_TIMEOUTS),
        ({"name": "n", "firstRun": "tomorrow"}, "402 Malformed firstRun"),
        ({"name": "n", "firstRun": "2030-02-30"}, "402 Malformed firstRun"),
        ({"name": "n", "firstRun": "2030-01-01 10:00"}, "402 Malformed firstRun"),
        ({"name": "n", "parentJobID": "x"}, "402 Malformed parentJobID"),
        ({"name": "n", "parentJobID": 77}, "404 parentJobID does not exist"),
        ({"name": "n", "parentJobID": 77, "repeat": "SOON"}, "404 parentJobID does not exist"),
        ({"name": "n", "repeat": "SOON"}, "402 Malformed repeat"),
        ({"name": "n", "repeat": "FINISHED"}, "402 Malformed repeat"),
        ({"name": "n", "repeat": "FINISHED, 1 DAY"}, "402 Malformed repeat"),
    ],
)  # fmt: skip
async def test_refused_parameters(bedrock: BedrockCommands, given: dict[str, Any], line: str) -> None:
    assert (await bedrock("CreateJob", **given)).line == line
    assert (await bedrock.ok("Query", query="select count(*) from jobs;")).text == "[[0]]"


@pytest.mark.parametrize(
    ("given", "field", "value"),
    [
        ({"data": ""}, "data", {}),
        ({"repeat": ""}, "repeat", ""),
        ({"repeat": "finished, + 1 hour"}, "repeat", "finished, + 1 hour"),
        ({"jobPriority": 1000}, "priority", 1000),
        ({"priority": 0}, "priority", 0),
        ({"priority": 0, "jobPriority": 1000}, "priority", 1000),
        ({"firstRun": "2030-01-01"}, "nextRun", "2030-01-01"),
        ({"firstRun": "2030-01-01 00:00:00"}, "nextRun", "2030-01-01 00:00:00"),
        ({"firstRun": "2001-02-03 04:05:06"}, "nextRun", "2001-02-03 04:05:06"),
        ({"retryAfter": "+1 minute"}, "retryAfter", "+1 minute"),
        ({"parentJobID": 0}, "state", "QUEUED"),
        ({"created": "2001-01-01", "nextRun": "2099-01-01", "requestID": "x"}, "state", "QUEUED"),
    ],
)
async def test_stored_parameters(bedrock: BedrockCommands, given: dict[str, Any], field: str, value: Any) -> None:
    assert (await bedrock.query(await bedrock.create(**given)))[field] == value


async def test_data_is_kept_as_it_was_written(bedrock: BedrockCommands) -> None:
    number = await bedrock.create(data='{"b": 1.10, "a": [ 1, 2 ], "s": "x  y"}')
    assert '"data":{"b":1.10,"a":[1,2],"s":"x  y"}' in (await bedrock.ok("QueryJob", jobID=number)).text


async def test_data_that_was_typed_without_escaping(bedrock: BedrockCommands) -> None:
    """D20: data that is valid only before unescaping is read as it was sent."""
    (await bedrock("CreateJob", raw={"name": "n", "data": '{"a":"x\\ny","b":"say \\"hi\\""}'}))
    (await bedrock("CreateJob", raw={"name": "n", "data": '{"a":"x\\\\ny"}'}))
    assert (await bedrock.query(1))["data"] == {"a": "x\ny", "b": 'say "hi"'}
    assert (await bedrock.query(2))["data"] == {"a": "x\ny"}


# Families


async def test_the_first_state_of_a_child(bedrock: BedrockCommands) -> None:
    parent, child = await bedrock.parent_and_child()
    assert await bedrock.state(child) == "PAUSED"
    await bedrock.ok("FinishJob", jobID=parent)
    sibling = await bedrock.create("sibling", parentJobID=parent)
    assert (await bedrock.state(parent), await bedrock.state(child), await bedrock.state(sibling)) == (
        "PAUSED", "QUEUED", "QUEUED",
    )  # fmt: skip


async def test_a_runqueued_job_may_have_children(bedrock: BedrockCommands) -> None:
    parent = await bedrock.running(retryAfter="+1 HOUR")
    assert await bedrock.state(await bedrock.create("child", parentJobID=parent)) == "PAUSED"


PARENT_STATE = "405 Can only create child job when parent is RUNNING, RUNQUEUED or PAUSED"


async def test_jobs_that_cannot_be_parents(bedrock: BedrockCommands) -> None:
    queued = await bedrock.create("queued")
    assert (await bedrock("CreateJob", name="c", parentJobID=queued)).line == PARENT_STATE
    parent, child = await bedrock.parent_and_child()
    await bedrock.ok("FinishJob", jobID=parent)
    assert (await bedrock.get("child"))["jobID"] == child
    refused = await bedrock("CreateJob", name="grandchild", parentJobID=child)
    assert refused.line == "405 Cannot create grandchildren"
    await bedrock.ok("FailJob", jobID=child)
    assert (await bedrock("CreateJob", name="c", parentJobID=child)).line == PARENT_STATE
    malformed = await bedrock("CreateJob", name="c", parentJobID=parent, repeat="SOON")
    assert malformed.line == PARENT_STATE, "the parent comes first: it is queued by now"


# unique


async def test_unique_finds_any_job_of_the_name_in_any_state(bedrock: BedrockCommands) -> None:
    first = await bedrock.create("job")
    assert await bedrock.create("job") == first + 1
    for unique in ("true", "TRUE", "1", "yes", "no", "-1", "0.5", "null"):
        assert await bedrock.create("job", unique=unique) == first
    assert await bedrock.create("other", unique="true") == first + 2
    for unique in ("0", "false", "False", "", "00", "-0", "0.0"):
        assert await bedrock.create("other", unique=unique) > first + 2
    failed = await bedrock.running("fails")
    await bedrock.ok("FailJob", jobID=failed)
    assert await bedrock.create("fails", unique=True) == failed
    assert await bedrock.state(failed) == "FAILED"


@pytest.mark.parametrize(
    ("known", "given", "data", "repeat", "priority"),
    [
        ({"data": {"a": 1}}, {"data": {"a": 1}}, {"a": 1}, "", 500),
        ({"data": {"a": 1}, "repeat": "HOURLY", "jobPriority": 1000}, {"data": {"a": 1}}, {"a": 1}, "HOURLY", 1000),
        ({"data": {"a": 1}}, {"data": {"a": 1}, "repeat": "DAILY", "jobPriority": 0}, {"a": 1}, "DAILY", 0),
        ({}, {"repeat": "DAILY"}, {}, "DAILY", 500),
        ({"data": {"a": 1}, "repeat": "HOURLY", "jobPriority": 0}, {}, {"a": 1}, "", 500),
        (
            {"data": {"a": 1, "b": {"x": 1, "y": [1, 2]}, "c": 1}, "repeat": "HOURLY"},
            {"data": {"b": {"y": [3], "z": None, "w": {"v": None}}, "c": None, "d": 2}, "jobPriority": 1000},
            {"a": 1, "b": {"x": 1, "y": [3], "w": {}}, "d": 2}, "", 1000,
        ),
        ({"data": {"a": 1}}, {"data": {"b": 1}, "overwrite": False}, {"a": 1}, "", 500),
        ({"data": {"a": 1}}, {"data": {"b": 1}, "overwrite": True}, {"a": 1, "b": 1}, "", 500),
    ],
)  # fmt: skip
async def test_changes_of_an_existing_unique_job(
    bedrock: BedrockCommands, known: dict[str, Any], given: dict[str, Any], data: Any, repeat: str, priority: int
) -> None:
    """D8."""
    number = await bedrock.create("job", firstRun="2001-01-01 00:00:00", **known)
    before = await bedrock.query(number)
    assert await bedrock.create("job", unique=True, **given) == number
    after = await bedrock.query(number)
    assert list(after["data"]) == list(data)
    assert after == before | {"data": data, "repeat": repeat, "priority": priority}


async def test_a_unique_job_of_another_parent(bedrock: BedrockCommands) -> None:
    parent, child = await bedrock.parent_and_child()
    refused = await bedrock("CreateJob", name="child", unique=True, repeat="SOON")
    assert refused.line == "404 Trying to create a child that already exists, but it is tied to a different parent"
    assert await bedrock.create("child", unique=True, parentJobID=parent) == child
    assert (await bedrock("CreateJob", name="child", unique=True, parentJobID=parent, repeat="SOON")).line == (
        "402 Malformed repeat"
    )


async def test_many_at_once_make_one_unique_job(bedrock: BedrockCommands) -> None:
    numbers = await asyncio.gather(
        *(bedrock.create("only", unique=True, data={f"k{at}": at}) for at in range(30)),
        *(_created_together(bedrock) for _ in range(10)),
    )
    assert len(set(numbers)) == 1
    assert (await bedrock.ok("Query", query="select count(*) from jobs where name = 'only';")).text == "[[1]]"
    merged = (await bedrock.query(numbers[0]))["data"]
    assert merged == {f"k{at}": at for at in range(30)}, "no change of another is lost"


async def _created_together(bedrock: BedrockCommands) -> int:
    result = await bedrock.ok("CreateJobs", jobs=[{"name": "only", "unique": True}, {"name": "beside"}])
    return int(result.body["jobIDs"][0])


# CreateJobs


@pytest.mark.parametrize(
    "jobs", ["", "[]", "{}", "[1]", "[{}]", "[null]", '[{"name":"x"}', '[{"name":"x"}] x', '[{"name":"x"},[]]', "x"]
)
async def test_invalid_lists_of_jobs(bedrock: BedrockCommands, jobs: str) -> None:
    assert (await bedrock("CreateJobs", jobs=jobs)).line == "401 Invalid JSON"


async def test_a_missing_list(bedrock: BedrockCommands) -> None:
    assert (await bedrock("CreateJobs")).line == "401 Invalid JSON"


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ({"title": "name"}, "402 Missing name"),
        ({"name": "x", "jobPriority": 3}, "402 Invalid priority value"),
        ({"name": "x", "data": "[1"}, MALFORMED_DATA),
        ({"name": "x", "jobTimeout": "10"}, "402 Malformed jobTimeout"),
        ({"name": "x", "timeout": 110000}, "402 Malformed jobTimeout"),
        ({"name": "x", "repeat": "SOON"}, "402 Malformed repeat"),
        ({"name": "x", "parentJobID": 99}, "404 parentJobID does not exist"),
    ],
)
async def test_one_wrong_job_refuses_all(bedrock: BedrockCommands, wrong: dict[str, Any], line: str) -> None:
    assert (await bedrock("CreateJobs", jobs=[{"name": "good"}, wrong])).line == line
    assert (await bedrock.ok("Query", query="select * from jobs;")).text == "[]"


async def test_too_many_jobs(bedrock: BedrockCommands) -> None:
    most = [{"name": "x"}] * 1000
    assert (await bedrock("CreateJobs", jobs=[*most, {"name": "y"}])).line == "402 Too many jobs"
    assert (await bedrock.ok("CreateJobs", jobs=most)).body["jobIDs"] == list(range(1, 1001))


async def test_values_of_any_kind(bedrock: BedrockCommands) -> None:
    jobs = [
        {"Name": "a", "data": {"x": 1}, "jobPriority": 1000, "firstRun": "2030-01-01"},
        {"name": "b", "data": '{"y": "z"}', "JOBPRIORITY": "0", "repeat": None, "unique": False},
    ]
    first, second = (await bedrock.ok("CreateJobs", jobs=jobs)).body["jobIDs"]
    assert {"data": {"x": 1}, "priority": 1000, "nextRun": "2030-01-01"}.items() <= (await bedrock.query(first)).items()
    assert {"data": {"y": "z"}, "priority": 0, "name": "b"}.items() <= (await bedrock.query(second)).items()


async def test_unique_jobs_among_others(bedrock: BedrockCommands) -> None:
    known = await bedrock.create("known", data={"a": 1})
    jobs = [
        {"name": "new"},
        {"name": "known", "unique": True, "data": {"b": 2}},
        {"name": "twice", "unique": True, "data": {"a": 1}},
        {"name": "twice", "unique": True, "data": {"b": 2}},
        {"name": "new", "unique": True},
    ]
    numbers = (await bedrock.ok("CreateJobs", jobs=jobs)).body["jobIDs"]
    assert numbers == [2, known, 3, 3, 2]
    assert (await bedrock.query(known))["data"] == {"a": 1, "b": 2}
    assert (await bedrock.query(3))["data"] == {"a": 1, "b": 2}


# Mocked jobs


async def test_a_mocked_job(bedrock: BedrockCommands) -> None:
    number = await bedrock.create(mockRequest="", data={"a": 1}, repeat="HOURLY")
    row = await bedrock.query(number)
    assert (row["data"], row["repeat"]) == ({"a": 1, "mockRequest": True}, "")
    assert (await bedrock("GetJob", name="*")).line == "404 No job found"
    assert (await bedrock("GetJobs", name="job", numResults=5)).line == "404 No job found"
    real = await bedrock.create()
    (first, second) = (await bedrock.ok("GetJobs", name="*", numResults=5, getMockedJobs="")).body["jobs"]
    assert (first["jobID"], second["jobID"]) == (number, real)
    assert first["data"] == {"a": 1, "mockRequest": True}


async def test_data_may_say_that_a_job_is_mocked(bedrock: BedrockCommands) -> None:
    await bedrock.create(data={"mockRequest": 5, "a": 1})
    assert (await bedrock("GetJob", name="job")).line == "404 No job found"
    assert (await bedrock.get("job", mockRequest="x"))["data"] == {"a": 1, "mockRequest": True}


async def test_a_child_follows_its_parent(bedrock: BedrockCommands) -> None:
    mocked = await bedrock.running("mocked", mockRequest="")
    real = await bedrock.running("real")
    of_mocked = await bedrock.create("one", parentJobID=mocked)
    of_real = await bedrock.create("two", parentJobID=real, mockRequest="", data={"mockRequest": True})
    assert (await bedrock.query(of_mocked))["data"] == {"mockRequest": True}
    assert (await bedrock.query(of_real))["data"] == {}
    both = (await bedrock.ok("CreateJobs", jobs=[{"name": "x", "parentJobID": mocked}, {"name": "y"}])).body["jobIDs"]
    assert [(await bedrock.query(one))["data"] for one in both] == [{"mockRequest": True}] * 2


async def test_unique_stays_within_its_kind(bedrock: BedrockCommands) -> None:
    real, mocked = await bedrock.create("same", unique=True), await bedrock.create("same", unique=True, mockRequest="")
    assert real != mocked
    assert await bedrock.create("same", unique=True) == real
    assert await bedrock.create("same", unique=True, mockRequest="") == mocked


async def test_a_long_name_is_unique_too(bedrock: BedrockCommands) -> None:
    name = json.loads('"\\u00fc"') * 127
    number = await bedrock.create(name, unique=True)
    assert await bedrock.create(name, unique=True) == number
