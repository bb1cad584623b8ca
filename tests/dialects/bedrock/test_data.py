"""Size limit of the data of a Bedrock job, and the reply when it is exceeded."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.dialects.bedrock.command_router import BedrockCommands
from windlass.core.errors import BadSetting
from windlass.core.operations import Take
from windlass.service import Service
from windlass.settings import load

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]
MIB = 1024 * 1024


def data_of(size: int) -> dict[str, str]:
    """Return an object of this stored size in bytes."""
    return {"a": "x" * (size - len('{"a":""}'))}


def too_large(size: int, most: int = MIB) -> str:
    return f"402 Malformed data: it has {size} bytes, at most {most} are allowed"


@pytest.fixture
async def roomy(service: Service) -> AsyncIterator[BedrockCommands]:
    """Commands with a limit of 4 MiB."""
    async with service.store:
        bedrock = BedrockCommands(service, data_max=4 * MIB)
        yield bedrock
        await bedrock.router.close()


@pytest.mark.parametrize("verb", ["UpdateJob", "FinishJob", "RetryJob", "FailJob"])
async def test_a_command_with_too_much_data_says_so_and_changes_nothing(bedrock: BedrockCommands, verb: str) -> None:
    number = await bedrock.running("a", data={"b": 1})
    before = await bedrock.query(number)
    result = await bedrock(verb, jobID=number, data=data_of(MIB + 1))
    assert result.line == too_large(MIB + 1)
    assert await bedrock.query(number) == before
    await bedrock.ok(verb, jobID=number, data=data_of(MIB))


@pytest.mark.parametrize("more", [{}, {"unique": True}, {"repeat": "FINISHED, +1 DAY"}])
async def test_a_job_that_is_created(bedrock: BedrockCommands, more: dict[str, Any]) -> None:
    assert (await bedrock("CreateJob", name="a", data=data_of(MIB + 1), **more)).line == too_large(MIB + 1)
    assert (await bedrock.ok("Query", query="SELECT count(*) FROM jobs;")).body == [[0]]
    await bedrock.ok("CreateJob", name="a", data=data_of(MIB), **more)


async def test_one_of_many_jobs(bedrock: BedrockCommands) -> None:
    jobs = [{"name": "a"}, {"name": "b", "data": data_of(MIB + 5)}]
    assert (await bedrock("CreateJobs", jobs=jobs)).line == too_large(MIB + 5)
    assert (await bedrock.ok("Query", query="SELECT count(*) FROM jobs;")).body == [[0]]


async def test_white_space_does_not_count(bedrock: BedrockCommands) -> None:
    await bedrock.ok("CreateJob", name="a", raw={"data": '{"a":' + " " * MIB + '"b"}'})


async def test_the_merged_data_of_a_unique_job_is_bounded(bedrock: BedrockCommands) -> None:
    number = await bedrock.create("a", unique=True, data=data_of(MIB - 100))
    result = await bedrock("CreateJob", name="a", unique=True, data={"b": "y" * 200})
    assert result.line.startswith("402 Malformed data: it has ")
    assert "b" not in (await bedrock.query(number))["data"]
    jobs = [
        {"name": "c", "unique": True, "data": data_of(MIB - 100)},
        {"name": "c", "unique": True, "data": {"b": "y" * 200}},
    ]
    assert (await bedrock("CreateJobs", jobs=jobs)).line.startswith("402 Malformed data: it has ")


async def test_a_setting_may_allow_more(roomy: BedrockCommands) -> None:
    """The job is created, updated, read, and taken by Bedrock and by another dialect."""
    data = data_of(4 * MIB)
    number = await roomy.create("a", data=data_of(2 * MIB))
    await roomy.ok("UpdateJob", jobID=number, data=data)
    assert (await roomy.query(number))["data"] == data
    result = await roomy.ok("Query", query="SELECT length(data), data FROM jobs;")
    assert result.body == [[4 * MIB, data]]
    assert (await roomy.get("a"))["data"] == data
    await roomy.ok("RetryJob", jobID=number, data=data)
    (taken,) = (await roomy.service.take(Take(queues=("bedrock",)))).jobs
    assert len(taken.payload.data) == 4 * MIB
    assert (await roomy("CreateJob", name="b", data=data_of(4 * MIB + 1))).line == too_large(4 * MIB + 1, 4 * MIB)


async def test_a_setting_may_allow_less(service: Service) -> None:
    async with service.store:
        bedrock = BedrockCommands(service, data_max=1024)
        assert (await bedrock("CreateJob", name="b", data=data_of(1025))).line == too_large(1025, 1024)
        await bedrock.ok("CreateJob", name="b", data=data_of(1024))


@pytest.mark.parametrize("value", ["1023", str(4 * MIB + 1), "1 MiB"])
def test_values_of_the_setting(value: str, engine: object) -> None:
    assert load({}, {"WINDLASS_BEDROCK_DATA_MAX": str(4 * MIB)})[0].bedrock_data_max == 4 * MIB
    with pytest.raises(BadSetting, match="WINDLASS_BEDROCK_DATA_MAX"):
        load({}, {"WINDLASS_BEDROCK_DATA_MAX": value})
