"""Concurrent commands: the second is refused with the right status line, and nothing is half done."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from tests.dialects.bedrock.command_router import BedrockCommands

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

ROUNDS = 15
GONE = "404 No job with this jobID"
NOT_RUNNING = "405 Can only retry/finish RUNNING and RUNQUEUED jobs"


async def _together(bedrock: BedrockCommands, *commands: tuple[str, int]) -> list[str]:
    answers = await asyncio.gather(*(bedrock(verb, jobID=number) for verb, number in commands))
    return [result.line for result in answers]


async def test_two_finishes(bedrock: BedrockCommands) -> None:
    for _ in range(ROUNDS):
        number = await bedrock.running()
        lines = await _together(bedrock, ("FinishJob", number), ("FinishJob", number))
        assert sorted(lines) == ["200 OK", GONE]


async def test_a_job_that_repeats_is_finished_once(bedrock: BedrockCommands) -> None:
    number = await bedrock.create(repeat="SCHEDULED, +1 DAY", firstRun="2020-01-01")
    for day in range(ROUNDS):
        assert (await bedrock.get())["nextRun"][:10] == f"2020-01-{day + 1:02}"
        lines = await _together(bedrock, ("FinishJob", number), ("FinishJob", number), ("FinishJob", number))
        assert Counter(lines) == {"200 OK": 1, NOT_RUNNING: 2}


async def test_finish_against_fail(bedrock: BedrockCommands) -> None:
    for _ in range(ROUNDS):
        number = await bedrock.running()
        finished, failed = await _together(bedrock, ("FinishJob", number), ("FailJob", number))
        state = await bedrock.state(number)
        assert (finished, failed, state) in (("200 OK", GONE, "gone"), (NOT_RUNNING, "200 OK", "FAILED"))


async def test_cancel_against_taking_and_finishing(bedrock: BedrockCommands) -> None:
    for _ in range(ROUNDS):
        parent, child = await bedrock.parent_and_child()
        await bedrock.ok("FinishJob", jobID=parent)

        async def work(child: int = child) -> str:
            if (await bedrock("GetJob", name="child")).line != "200 OK":
                return "nothing to do"
            return (await bedrock("FinishJob", jobID=child)).line

        worked, cancelled = await asyncio.gather(work(), bedrock("CancelJob", jobID=child))
        assert cancelled.line == "200 OK"
        assert (worked, await bedrock.state(child)) in (("200 OK", "FINISHED"), ("nothing to do", "CANCELLED"))
        assert await bedrock.state(parent) == "QUEUED"
        await bedrock.get("parent")
        await bedrock.ok("FinishJob", jobID=parent)


async def test_a_child_is_made_while_its_parent_finishes(bedrock: BedrockCommands) -> None:
    for _ in range(ROUNDS):
        parent = await bedrock.running("parent")
        finished, made = await asyncio.gather(
            bedrock("FinishJob", jobID=parent), bedrock("CreateJob", name="child", parentJobID=parent)
        )
        assert finished.line == "200 OK"
        if made.line != "200 OK":
            assert (made.line, await bedrock.state(parent)) == ("404 parentJobID does not exist", "gone")
            continue
        assert (await bedrock.state(parent), await bedrock.state(made.body["jobID"])) == ("PAUSED", "QUEUED")
        assert (await bedrock.get("child"))["parentJobID"] == parent
        await bedrock.ok("FinishJob", jobID=made.body["jobID"])
        await bedrock.get("parent")
        await bedrock.ok("FinishJob", jobID=parent)


async def test_the_last_two_children_finish(bedrock: BedrockCommands) -> None:
    for _ in range(ROUNDS):
        parent, first = await bedrock.parent_and_child()
        second = await bedrock.create("child", parentJobID=parent)
        await bedrock.ok("FinishJob", jobID=parent)
        await bedrock.ok("GetJobs", name="child", numResults=2)
        assert await _together(bedrock, ("FinishJob", first), ("FailJob", second)) == ["200 OK", "200 OK"]
        assert await bedrock.state(parent) == "QUEUED"
        await bedrock.get("parent")
        await bedrock.ok("FinishJob", jobID=parent)
        await bedrock.ok("DeleteJob", jobID=second)


async def test_delete_against_taking(bedrock: BedrockCommands) -> None:
    for _ in range(ROUNDS):
        number = await bedrock.create()
        taken, deleted = await asyncio.gather(bedrock("GetJob", name="*"), bedrock("DeleteJob", jobID=number))
        assert (taken.line, deleted.line) in (
            ("200 OK", "405 Can't delete a RUNNING job"), ("404 No job found", "200 OK"),
        )  # fmt: skip
        if taken.line == "200 OK":
            await bedrock.ok("FinishJob", jobID=number)


async def test_updates_do_not_overwrite_a_finish(bedrock: BedrockCommands) -> None:
    for _ in range(ROUNDS):
        number = await bedrock.running(repeat="STARTED, -1 DAY", data={"n": 0})
        await asyncio.gather(
            bedrock.ok("FinishJob", jobID=number, data={"n": 1}),
            bedrock.ok("UpdateJob", jobID=number, data={"n": 2}),
            bedrock.ok("CreateJob", name="job", unique=True, data={"m": 1}, repeat="STARTED, -1 DAY"),
        )
        assert await bedrock.state(number) == "QUEUED"
        assert (await bedrock.query(number))["data"]["n"] in (1, 2)
        await bedrock.get()
        await bedrock.ok("FinishJob", jobID=number, ignoreRepeat=True)


async def test_requeue_against_everything(bedrock: BedrockCommands) -> None:
    for _ in range(ROUNDS):
        number = await bedrock.running()
        lines = await asyncio.gather(
            bedrock("RequeueJobs", jobIDs=number),
            bedrock("RetryJob", jobID=number),
            bedrock("RequeueJobs", jobIDs=number, name="other"),
        )
        assert {result.line for result in lines} <= {"200 OK", NOT_RUNNING}
        row = await bedrock.query(number)
        assert (row["state"], row["name"]) == ("QUEUED", "other")
        await bedrock.ok("DeleteJob", jobID=number)


async def test_each_job_is_taken_once(bedrock: BedrockCommands) -> None:
    numbers = (await bedrock.ok("CreateJobs", jobs=[{"name": f"n{at % 7}"} for at in range(60)])).body["jobIDs"]
    answers = await asyncio.gather(*(bedrock("GetJobs", name=f"n{at % 7}*", numResults=3) for at in range(40)))
    taken = [job["jobID"] for result in answers if result.line == "200 OK" for job in result.body["jobs"]]
    assert sorted(taken) == sorted(set(taken))
    assert set(taken) <= set(numbers)
    assert len(taken) == 60
