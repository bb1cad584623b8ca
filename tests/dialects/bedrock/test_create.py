"""CreateJob and CreateJobs: every check in its order, unique, families, mocked jobs."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from tests.dialects.bedrock.command_router import AtDesk

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

SECOND = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
TWO_RULES = "402 Recurring auto-retrying jobs are not supported"
MALFORMED_DATA = "402 Data is not a valid JSON Object"


async def test_numbers_are_small_and_follow_each_other(desk: AtDesk) -> None:
    said = await desk.good("CreateJob", name="foo", data={"value": 1}, repeat="finished, +1 minute")
    assert (said.text, said.reply.headers) == ('{"jobID":1}', (("jobID", "1"),))
    assert [await desk.create() for _ in range(3)] == [2, 3, 4]
    jobs = [{"name": "a"}, {"name": "b"}]
    assert (await desk.good("CreateJobs", jobs=jobs)).text == '{"jobIDs":[5,6]}'


async def test_a_number_is_never_given_out_twice(desk: AtDesk) -> None:
    number = await desk.running()
    await desk.good("FinishJob", jobID=number)
    assert await desk.create() == number + 1


async def test_a_fresh_job_is_all_defaults(desk: AtDesk) -> None:
    said = await desk.good("QueryJob", jobID=await desk.create("foo"))
    row = said.body
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
        ({"name": "n", "data": "[1]"}, MALFORMED_DATA),
        ({"name": "n", "data": '{"a":1'}, MALFORMED_DATA),
        ({"name": "n", "data": "null"}, MALFORMED_DATA),
        ({"name": "n", "data": "{" * 5000}, MALFORMED_DATA),
        ({"name": "n", "data": "x", "retryAfter": "10"}, MALFORMED_DATA),
        ({"name": "n", "retryAfter": "10"}, "402 Malformed retryAfter"),
        ({"name": "n", "retryAfter": "+1 DAY", "repeat": "DAILY"}, TWO_RULES),
        ({"name": "n", "retryAfter": "+1 DAY", "unique": True}, "405 Unique jobs can't be retried"),
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
async def test_what_is_refused(desk: AtDesk, given: dict[str, Any], line: str) -> None:
    assert (await desk("CreateJob", **given)).line == line
    assert (await desk.good("Query", query="select count(*) from jobs;")).text == "[[0]]"


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
async def test_what_is_kept(desk: AtDesk, given: dict[str, Any], field: str, value: Any) -> None:
    assert (await desk.query(await desk.create(**given)))[field] == value


async def test_data_is_kept_as_it_was_written(desk: AtDesk) -> None:
    number = await desk.create(data='{"b": 1.10, "a": [ 1, 2 ], "s": "x  y"}')
    assert '"data":{"b":1.10,"a":[1,2],"s":"x  y"}' in (await desk.good("QueryJob", jobID=number)).text


async def test_data_that_was_typed_without_escaping(desk: AtDesk) -> None:
    """D20: what only makes sense as it was sent is read so."""
    (await desk("CreateJob", raw={"name": "n", "data": '{"a":"x\\ny","b":"say \\"hi\\""}'}))
    (await desk("CreateJob", raw={"name": "n", "data": '{"a":"x\\\\ny"}'}))
    assert (await desk.query(1))["data"] == {"a": "x\ny", "b": 'say "hi"'}
    assert (await desk.query(2))["data"] == {"a": "x\ny"}


# Families


async def test_the_first_state_of_a_child(desk: AtDesk) -> None:
    parent, child = await desk.parent_and_child()
    assert await desk.state(child) == "PAUSED"
    await desk.good("FinishJob", jobID=parent)
    sibling = await desk.create("sibling", parentJobID=parent)
    assert (await desk.state(parent), await desk.state(child), await desk.state(sibling)) == (
        "PAUSED", "QUEUED", "QUEUED",
    )  # fmt: skip


async def test_a_runqueued_job_may_have_children(desk: AtDesk) -> None:
    parent = await desk.running(retryAfter="+1 HOUR")
    assert await desk.state(await desk.create("child", parentJobID=parent)) == "PAUSED"


PARENT_STATE = "405 Can only create child job when parent is RUNNING, RUNQUEUED or PAUSED"


async def test_who_can_be_no_parent(desk: AtDesk) -> None:
    queued = await desk.create("queued")
    assert (await desk("CreateJob", name="c", parentJobID=queued)).line == PARENT_STATE
    parent, child = await desk.parent_and_child()
    await desk.good("FinishJob", jobID=parent)
    assert (await desk.get("child"))["jobID"] == child
    refused = await desk("CreateJob", name="grandchild", parentJobID=child)
    assert refused.line == "405 Cannot create grandchildren"
    await desk.good("FailJob", jobID=child)
    assert (await desk("CreateJob", name="c", parentJobID=child)).line == PARENT_STATE
    malformed = await desk("CreateJob", name="c", parentJobID=parent, repeat="SOON")
    assert malformed.line == PARENT_STATE, "the parent comes first: it is queued by now"


# unique


async def test_unique_finds_any_job_of_the_name_in_any_state(desk: AtDesk) -> None:
    first = await desk.create("job")
    assert await desk.create("job") == first + 1
    for unique in ("true", "TRUE", "1"):
        assert await desk.create("job", unique=unique) == first
    assert await desk.create("other", unique="true") == first + 2
    for unique in ("0", "yes", ""):
        assert await desk.create("other", unique=unique) > first + 2
    failed = await desk.running("fails")
    await desk.good("FailJob", jobID=failed)
    assert await desk.create("fails", unique=True) == failed
    assert await desk.state(failed) == "FAILED"


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
async def test_what_a_unique_hit_changes(
    desk: AtDesk, known: dict[str, Any], given: dict[str, Any], data: Any, repeat: str, priority: int
) -> None:
    """D8."""
    number = await desk.create("job", firstRun="2001-01-01 00:00:00", **known)
    before = await desk.query(number)
    assert await desk.create("job", unique=True, **given) == number
    after = await desk.query(number)
    assert list(after["data"]) == list(data)
    assert after == before | {"data": data, "repeat": repeat, "priority": priority}


async def test_a_unique_job_of_another_parent(desk: AtDesk) -> None:
    parent, child = await desk.parent_and_child()
    refused = await desk("CreateJob", name="child", unique=True, repeat="SOON")
    assert refused.line == "404 Trying to create a child that already exists, but it is tied to a different parent"
    assert await desk.create("child", unique=True, parentJobID=parent) == child
    assert (await desk("CreateJob", name="child", unique=True, parentJobID=parent, repeat="SOON")).line == (
        "402 Malformed repeat"
    )


async def test_many_at_once_make_one_unique_job(desk: AtDesk) -> None:
    numbers = await asyncio.gather(
        *(desk.create("only", unique=True, data={f"k{at}": at}) for at in range(30)),
        *(_created_together(desk) for _ in range(10)),
    )
    assert len(set(numbers)) == 1
    assert (await desk.good("Query", query="select count(*) from jobs where name = 'only';")).text == "[[1]]"
    merged = (await desk.query(numbers[0]))["data"]
    assert merged == {f"k{at}": at for at in range(30)}, "no change of another is lost"


async def _created_together(desk: AtDesk) -> int:
    said = await desk.good("CreateJobs", jobs=[{"name": "only", "unique": True}, {"name": "beside"}])
    return int(said.body["jobIDs"][0])


# CreateJobs


@pytest.mark.parametrize(
    "jobs", ["", "[]", "{}", "[1]", "[{}]", "[null]", '[{"name":"x"}', '[{"name":"x"}] x', '[{"name":"x"},[]]', "x"]
)
async def test_what_is_no_list_of_jobs(desk: AtDesk, jobs: str) -> None:
    assert (await desk("CreateJobs", jobs=jobs)).line == "401 Invalid JSON"


async def test_a_missing_list(desk: AtDesk) -> None:
    assert (await desk("CreateJobs")).line == "401 Invalid JSON"


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ({"title": "name"}, "402 Missing name"),
        ({"name": "x", "jobPriority": 3}, "402 Invalid priority value"),
        ({"name": "x", "data": [1]}, MALFORMED_DATA),
        ({"name": "x", "repeat": "SOON"}, "402 Malformed repeat"),
        ({"name": "x", "parentJobID": 99}, "404 parentJobID does not exist"),
    ],
)
async def test_one_wrong_job_refuses_all(desk: AtDesk, wrong: dict[str, Any], line: str) -> None:
    assert (await desk("CreateJobs", jobs=[{"name": "good"}, wrong])).line == line
    assert (await desk.good("Query", query="select * from jobs;")).text == "[]"


async def test_too_many_jobs(desk: AtDesk) -> None:
    most = [{"name": "x"}] * 1000
    assert (await desk("CreateJobs", jobs=[*most, {"name": "y"}])).line == "402 Too many jobs"
    assert (await desk.good("CreateJobs", jobs=most)).body["jobIDs"] == list(range(1, 1001))


async def test_values_of_any_kind(desk: AtDesk) -> None:
    jobs = [
        {"Name": "a", "data": {"x": 1}, "jobPriority": 1000, "firstRun": "2030-01-01"},
        {"name": "b", "data": '{"y": "z"}', "JOBPRIORITY": "0", "repeat": None, "unique": False},
    ]
    first, second = (await desk.good("CreateJobs", jobs=jobs)).body["jobIDs"]
    assert {"data": {"x": 1}, "priority": 1000, "nextRun": "2030-01-01"}.items() <= (await desk.query(first)).items()
    assert {"data": {"y": "z"}, "priority": 0, "name": "b"}.items() <= (await desk.query(second)).items()


async def test_unique_jobs_among_others(desk: AtDesk) -> None:
    known = await desk.create("known", data={"a": 1})
    jobs = [
        {"name": "new"},
        {"name": "known", "unique": True, "data": {"b": 2}},
        {"name": "twice", "unique": True, "data": {"a": 1}},
        {"name": "twice", "unique": True, "data": {"b": 2}},
        {"name": "new", "unique": True},
    ]
    numbers = (await desk.good("CreateJobs", jobs=jobs)).body["jobIDs"]
    assert numbers == [2, known, 3, 3, 2]
    assert (await desk.query(known))["data"] == {"a": 1, "b": 2}
    assert (await desk.query(3))["data"] == {"a": 1, "b": 2}


# Mocked jobs


async def test_a_mocked_job(desk: AtDesk) -> None:
    number = await desk.create(mockRequest="", data={"a": 1}, repeat="HOURLY")
    row = await desk.query(number)
    assert (row["data"], row["repeat"]) == ({"a": 1, "mockRequest": True}, "")
    assert (await desk("GetJob", name="*")).line == "404 No job found"
    assert (await desk("GetJobs", name="job", numResults=5)).line == "404 No job found"
    real = await desk.create()
    (first, second) = (await desk.good("GetJobs", name="*", numResults=5, getMockedJobs="")).body["jobs"]
    assert (first["jobID"], second["jobID"]) == (number, real)
    assert first["data"] == {"a": 1, "mockRequest": True}


async def test_data_may_say_that_a_job_is_mocked(desk: AtDesk) -> None:
    await desk.create(data={"mockRequest": 5, "a": 1})
    assert (await desk("GetJob", name="job")).line == "404 No job found"
    assert (await desk.get("job", mockRequest="x"))["data"] == {"a": 1, "mockRequest": True}


async def test_a_child_follows_its_parent(desk: AtDesk) -> None:
    mocked = await desk.running("mocked", mockRequest="")
    real = await desk.running("real")
    of_mocked = await desk.create("one", parentJobID=mocked)
    of_real = await desk.create("two", parentJobID=real, mockRequest="", data={"mockRequest": True})
    assert (await desk.query(of_mocked))["data"] == {"mockRequest": True}
    assert (await desk.query(of_real))["data"] == {}
    both = (await desk.good("CreateJobs", jobs=[{"name": "x", "parentJobID": mocked}, {"name": "y"}])).body["jobIDs"]
    assert [(await desk.query(one))["data"] for one in both] == [{"mockRequest": True}] * 2


async def test_unique_stays_within_its_kind(desk: AtDesk) -> None:
    real, mocked = await desk.create("same", unique=True), await desk.create("same", unique=True, mockRequest="")
    assert real != mocked
    assert await desk.create("same", unique=True) == real
    assert await desk.create("same", unique=True, mockRequest="") == mocked


async def test_a_long_name_is_unique_too(desk: AtDesk) -> None:
    name = json.loads('"\\u00fc"') * 127
    number = await desk.create(name, unique=True)
    assert await desk.create(name, unique=True) == number
