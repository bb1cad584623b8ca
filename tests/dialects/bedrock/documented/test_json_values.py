"""`data` as any JSON value, in every command that takes it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.dialects.bedrock.command_router import BedrockCommands

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]
VALUES: list[Any] = [
    [], [1, {"a": None}, "x"], 5, -1.5, 0, "", "text", "{not json", "mockRequest", ["mockRequest", "retryAfterCount"],
    True, False, "12", "null",
]  # fmt: skip
values = pytest.mark.parametrize("value", VALUES, ids=repr)
INVALID = ["{", "[1,]", "text", "nil", "NaN", "Infinity", "'a'", "1 2", "[1] x", "01"]
MALFORMED = "402 Data is not a valid JSON Object"


def encoded(value: Any) -> str:
    return json.dumps(value)


@values
async def test_every_command(bedrock: BedrockCommands, value: Any) -> None:
    number = await bedrock.create("job", data=encoded(value))
    assert (await bedrock.query(number))["data"] == value
    assert (await bedrock.row(number))["data"] == value
    assert (await bedrock.get("job"))["data"] == value
    await bedrock.ok("UpdateJob", jobID=number, data={"object": 1})
    await bedrock.ok("UpdateJob", jobID=number, data=encoded(value))
    assert (await bedrock.query(number))["data"] == value
    await bedrock.ok("RetryJob", jobID=number, data=encoded([value]))
    assert (await bedrock.get("job"))["data"] == [value]
    await bedrock.ok("FailJob", jobID=number, data=encoded(value))
    row = await bedrock.query(number)
    assert (row["state"], row["data"]) == ("FAILED", value)


@values
async def test_finish_of_a_repeating_job(bedrock: BedrockCommands, value: Any) -> None:
    number = await bedrock.running("job", repeat="SCHEDULED, +1 HOUR", firstRun="2020-01-01")
    await bedrock.ok("FinishJob", jobID=number, data=encoded(value))
    assert (await bedrock.get("job"))["data"] == value
    await bedrock.ok("FinishJob", jobID=number)
    assert (await bedrock.get("job"))["data"] == value, "it stays"


@values
async def test_jobs_of_create_jobs(bedrock: BedrockCommands, value: Any) -> None:
    """A string that begins as an object or array is JSON text, as some clients send it."""
    result = await bedrock("CreateJobs", jobs=[{"name": "job", "data": value}])
    if value == "{not json":
        assert result.line == MALFORMED
        return
    assert (await bedrock.get("job"))["data"] == ({} if value == "" else value)


@pytest.mark.parametrize("value", [{"a": 1}, [1, 2], []])
async def test_json_text_inside_create_jobs(bedrock: BedrockCommands, value: Any) -> None:
    await bedrock.ok("CreateJobs", jobs=[{"name": "job", "data": " " + encoded(value)}])
    assert (await bedrock.get("job"))["data"] == value


@pytest.mark.parametrize("null", ["null", " null "])
async def test_null_means_no_data(bedrock: BedrockCommands, null: str) -> None:
    number = await bedrock.running("job", data=null, repeat="SCHEDULED, +1 HOUR", firstRun="2020-01-01")
    for verb in ("UpdateJob", "FinishJob"):
        await bedrock.ok("UpdateJob", jobID=number, data={"a": 1})
        await bedrock.ok(verb, jobID=number, data=null)
        assert (await bedrock.query(number))["data"] == {}


@pytest.mark.parametrize("text", INVALID)
async def test_invalid_json(bedrock: BedrockCommands, text: str) -> None:
    number = await bedrock.running("job", data="[1]")
    before = await bedrock.query(number)
    assert (await bedrock("CreateJob", name="other", data=text)).line == MALFORMED
    for verb in ("UpdateJob", "FinishJob", "RetryJob", "FailJob"):
        assert (await bedrock(verb, jobID=number, data=text)).line == MALFORMED
    assert await bedrock.query(number) == before


@values
async def test_mocked_jobs(bedrock: BedrockCommands, value: Any) -> None:
    """The key mockRequest is shown in objects only; the job stays mocked."""
    number = await bedrock.create("job", data=encoded(value), mockRequest="")
    assert (await bedrock("GetJob", name="job")).line == "404 No job found"
    assert (await bedrock.get("job", mockRequest=""))["data"] == value
    await bedrock.ok("RetryJob", jobID=number, data=encoded(value))
    assert (await bedrock("GetJob", name="job")).line == "404 No job found"
    await bedrock.ok("UpdateJob", jobID=number, data={"a": 1})
    assert (await bedrock.get("job", mockRequest=""))["data"] == {"a": 1, "mockRequest": True}
    assert (await bedrock("FinishJob", jobID=number, data={"a": 1})).line == "500 Mock Mismatch"
    await bedrock.ok("FinishJob", jobID=number, data=encoded(value))


@values
async def test_deliveries_are_counted(bedrock: BedrockCommands, value: Any) -> None:
    """The counter is shown in objects only, and limits the deliveries of all."""
    number = await bedrock.create("job", data=encoded(value), retryAfter="+0 SECOND")
    for _ in range(10):
        assert (await bedrock.get("job"))["data"] == value
    assert (await bedrock.ok("GetJob", name="job")).text == "{}"
    row = await bedrock.query(number)
    assert (row["state"], row["data"]) == ("FAILED", value)


@pytest.mark.parametrize(
    ("known", "given", "merged"),
    [
        ([1, 2], [3], [3]),
        ([1, 2], {"a": 1, "b": None}, {"a": 1}),
        ({"a": 1}, [3], [3]),
        ({"a": 1}, "text", "text"),
        (5, 5, 5),
        (5, False, False),
        ("text", {}, {}),
    ],
)
@pytest.mark.parametrize("is_one_command", [False, True])
async def test_unique_jobs(
    bedrock: BedrockCommands, known: Any, given: Any, merged: Any, *, is_one_command: bool
) -> None:
    """RFC 7396: a patch that is no object replaces the value."""
    if is_one_command:
        jobs = [{"name": "job", "unique": True, "data": value} for value in (known, given)]
        numbers = (await bedrock.ok("CreateJobs", jobs=jobs)).body["jobIDs"]
    else:
        numbers = [await bedrock.create("job", unique="yes", data=encoded(value)) for value in (known, given)]
    assert numbers[0] == numbers[1]
    assert (await bedrock.query(numbers[0]))["data"] == merged


async def test_a_unique_job_without_data_keeps_its_value(bedrock: BedrockCommands) -> None:
    number = await bedrock.create("job", unique=True, data="[1,2]")
    assert await bedrock.create("job", unique=True, repeat="DAILY") == number
    row = await bedrock.query(number)
    assert (row["data"], row["repeat"]) == ([1, 2], "DAILY")


@pytest.mark.parametrize("unique", [True, 1, "yes", "true", 2.5, [1], {"a": 1}])
async def test_unique_in_the_objects_of_create_jobs(bedrock: BedrockCommands, unique: Any) -> None:
    known = await bedrock.create("job")
    assert (await bedrock.ok("CreateJobs", jobs=[{"name": "job", "unique": unique}])).body["jobIDs"] == [known]


@pytest.mark.parametrize("unique", [False, 0, "", None, "0", "false", 0.0])
async def test_not_unique_in_the_objects_of_create_jobs(bedrock: BedrockCommands, unique: Any) -> None:
    known = await bedrock.create("job")
    assert (await bedrock.ok("CreateJobs", jobs=[{"name": "job", "unique": unique}])).body["jobIDs"] != [known]


async def test_parents_and_children(bedrock: BedrockCommands) -> None:
    parent = await bedrock.running("parent", data="[1]")
    child = await bedrock.create("child", parentJobID=parent, data='"in"')
    await bedrock.ok("FinishJob", jobID=parent)
    taken = await bedrock.get("child")
    assert (taken["data"], taken["parentData"]) == ("in", [1])
    await bedrock.ok("FinishJob", jobID=child, data="7")
    assert (await bedrock.get("parent"))["finishedChildJobs"] == [{"data": 7, "jobID": child}]


async def test_texts_as_they_are_typed(bedrock: BedrockCommands) -> None:
    """A value with backslashes that are not escaped for Bedrock is read as it was sent."""
    number = await bedrock.create("job", raw={"data": '"say \\"hi\\""'})
    assert (await bedrock.query(number))["data"] == 'say "hi"'
    assert (
        '"data":[1.10, 2]'.replace(" ", "")
        in (await bedrock.ok("QueryJob", jobID=await bedrock.create("job", raw={"data": "[ 1.10, 2 ]"}))).text
    )


async def test_columns_of_a_query(bedrock: BedrockCommands) -> None:
    await bedrock.ok("CreateJobs", jobs=[{"name": "job", "data": value} for value in (5, "x", [1], True, {"a": 1})])
    query = "SELECT data, json_type(data) FROM jobs ORDER BY jobID;"
    assert (await bedrock.ok("Query", query=query)).body == [
        [5, "integer"], ["x", "text"], [[1], "array"], [True, "true"], [{"a": 1}, "object"],
    ]  # fmt: skip
