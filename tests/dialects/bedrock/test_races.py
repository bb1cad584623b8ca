"""Commands that come at the same time: whoever is second is refused in the right words, and nothing is half done."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from tests.dialects.bedrock.command_router import AtDesk

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

ROUNDS = 15
GONE = "404 No job with this jobID"
NOT_RUNNING = "405 Can only retry/finish RUNNING and RUNQUEUED jobs"


async def _together(desk: AtDesk, *commands: tuple[str, int]) -> list[str]:
    answers = await asyncio.gather(*(desk(verb, jobID=number) for verb, number in commands))
    return [said.line for said in answers]


async def test_two_finishes(desk: AtDesk) -> None:
    for _ in range(ROUNDS):
        number = await desk.running()
        lines = await _together(desk, ("FinishJob", number), ("FinishJob", number))
        assert sorted(lines) == ["200 OK", GONE]


async def test_a_job_that_repeats_is_finished_once(desk: AtDesk) -> None:
    number = await desk.create(repeat="SCHEDULED, +1 DAY", firstRun="2020-01-01")
    for day in range(ROUNDS):
        assert (await desk.get())["nextRun"][:10] == f"2020-01-{day + 1:02}"
        lines = await _together(desk, ("FinishJob", number), ("FinishJob", number), ("FinishJob", number))
        assert Counter(lines) == {"200 OK": 1, NOT_RUNNING: 2}


async def test_finish_against_fail(desk: AtDesk) -> None:
    for _ in range(ROUNDS):
        number = await desk.running()
        finished, failed = await _together(desk, ("FinishJob", number), ("FailJob", number))
        state = await desk.state(number)
        assert (finished, failed, state) in (("200 OK", GONE, "gone"), (NOT_RUNNING, "200 OK", "FAILED"))


async def test_cancel_against_taking_and_finishing(desk: AtDesk) -> None:
    for _ in range(ROUNDS):
        parent, child = await desk.parent_and_child()
        await desk.good("FinishJob", jobID=parent)

        async def work(child: int = child) -> str:
            if (await desk("GetJob", name="child")).line != "200 OK":
                return "nothing to do"
            return (await desk("FinishJob", jobID=child)).line

        worked, cancelled = await asyncio.gather(work(), desk("CancelJob", jobID=child))
        assert cancelled.line == "200 OK"
        assert (worked, await desk.state(child)) in (("200 OK", "FINISHED"), ("nothing to do", "CANCELLED"))
        assert await desk.state(parent) == "QUEUED"
        await desk.get("parent")
        await desk.good("FinishJob", jobID=parent)


async def test_a_child_is_made_while_its_parent_finishes(desk: AtDesk) -> None:
    for _ in range(ROUNDS):
        parent = await desk.running("parent")
        finished, made = await asyncio.gather(
            desk("FinishJob", jobID=parent), desk("CreateJob", name="child", parentJobID=parent)
        )
        assert finished.line == "200 OK"
        if made.line != "200 OK":
            assert (made.line, await desk.state(parent)) == ("404 parentJobID does not exist", "gone")
            continue
        assert (await desk.state(parent), await desk.state(made.body["jobID"])) == ("PAUSED", "QUEUED")
        assert (await desk.get("child"))["parentJobID"] == parent
        await desk.good("FinishJob", jobID=made.body["jobID"])
        await desk.get("parent")
        await desk.good("FinishJob", jobID=parent)


async def test_the_last_two_children_finish(desk: AtDesk) -> None:
    for _ in range(ROUNDS):
        parent, first = await desk.parent_and_child()
        second = await desk.create("child", parentJobID=parent)
        await desk.good("FinishJob", jobID=parent)
        await desk.good("GetJobs", name="child", numResults=2)
        assert await _together(desk, ("FinishJob", first), ("FailJob", second)) == ["200 OK", "200 OK"]
        assert await desk.state(parent) == "QUEUED"
        await desk.get("parent")
        await desk.good("FinishJob", jobID=parent)
        await desk.good("DeleteJob", jobID=second)


async def test_delete_against_taking(desk: AtDesk) -> None:
    for _ in range(ROUNDS):
        number = await desk.create()
        taken, deleted = await asyncio.gather(desk("GetJob", name="*"), desk("DeleteJob", jobID=number))
        assert (taken.line, deleted.line) in (
            ("200 OK", "405 Can't delete a RUNNING job"), ("404 No job found", "200 OK"),
        )  # fmt: skip
        if taken.line == "200 OK":
            await desk.good("FinishJob", jobID=number)


async def test_updates_do_not_overwrite_a_finish(desk: AtDesk) -> None:
    for _ in range(ROUNDS):
        number = await desk.running(repeat="STARTED, -1 DAY", data={"n": 0})
        await asyncio.gather(
            desk.good("FinishJob", jobID=number, data={"n": 1}),
            desk.good("UpdateJob", jobID=number, data={"n": 2}),
            desk.good("CreateJob", name="job", unique=True, data={"m": 1}, repeat="STARTED, -1 DAY"),
        )
        assert await desk.state(number) == "QUEUED"
        assert (await desk.query(number))["data"]["n"] in (1, 2)
        await desk.get()
        await desk.good("FinishJob", jobID=number, ignoreRepeat=True)


async def test_requeue_against_everything(desk: AtDesk) -> None:
    for _ in range(ROUNDS):
        number = await desk.running()
        lines = await asyncio.gather(
            desk("RequeueJobs", jobIDs=number),
            desk("RetryJob", jobID=number),
            desk("RequeueJobs", jobIDs=number, name="other"),
        )
        assert {said.line for said in lines} <= {"200 OK", NOT_RUNNING}
        row = await desk.query(number)
        assert (row["state"], row["name"]) == ("QUEUED", "other")
        await desk.good("DeleteJob", jobID=number)


async def test_each_job_is_taken_once(desk: AtDesk) -> None:
    numbers = (await desk.good("CreateJobs", jobs=[{"name": f"n{at % 7}"} for at in range(60)])).body["jobIDs"]
    answers = await asyncio.gather(*(desk("GetJobs", name=f"n{at % 7}*", numResults=3) for at in range(40)))
    taken = [job["jobID"] for said in answers if said.line == "200 OK" for job in said.body["jobs"]]
    assert sorted(taken) == sorted(set(taken))
    assert set(taken) <= set(numbers)
    assert len(taken) == 60
