"""Bedrock's table of states, row by row, and the checks of the commands that change states."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import pytest

from tests.dialects.bedrock.command_router import BedrockCommands

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

Making: TypeAlias = Callable[[BedrockCommands], Awaitable[int]]
NOT_RUNNING = "405 Can only retry/finish RUNNING and RUNQUEUED jobs"
NOT_FAILING = "405 Can only fail RUNNING or RUNQUEUED jobs"
UNKNOWN = "404 No job with this jobID"


async def queued(bedrock: BedrockCommands) -> int:
    """Make a queued child of a waiting parent."""
    parent, child = await bedrock.parent_and_child()
    await bedrock.ok("FinishJob", jobID=parent)
    return child


async def running(bedrock: BedrockCommands) -> int:
    child = await queued(bedrock)
    await bedrock.get("child")
    return child


async def runqueued(bedrock: BedrockCommands) -> int:
    parent, child = await bedrock.parent_and_child(retryAfter="+1 HOUR")
    await bedrock.ok("FinishJob", jobID=parent)
    await bedrock.get("child")
    return child


async def paused(bedrock: BedrockCommands) -> int:
    return (await bedrock.parent_and_child())[1]


async def _ended(bedrock: BedrockCommands, verb: str) -> int:
    """End one of two children, so that the parent still waits."""
    parent, child = await bedrock.parent_and_child()
    await bedrock.create("other", parentJobID=parent)
    await bedrock.ok("FinishJob", jobID=parent)
    if verb != "CancelJob":
        await bedrock.get("child")
    await bedrock.ok(verb, jobID=child)
    return child


async def finished(bedrock: BedrockCommands) -> int:
    return await _ended(bedrock, "FinishJob")


async def failed(bedrock: BedrockCommands) -> int:
    return await _ended(bedrock, "FailJob")


async def cancelled(bedrock: BedrockCommands) -> int:
    return await _ended(bedrock, "CancelJob")


STATES: dict[str, Making] = {
    "QUEUED": queued, "RUNNING": running, "RUNQUEUED": runqueued, "PAUSED": paused, "FINISHED": finished,
    "FAILED": failed, "CANCELLED": cancelled,
}  # fmt: skip
NOT_DELETED = {
    "RUNNING": "405 Can't delete a RUNNING job",
    "PAUSED": "405 Can't delete a parent jobs with children running",
}


def expected(state: str, verb: str) -> tuple[str, str]:
    """Return the expected status line and the state after it."""
    is_running = state in ("RUNNING", "RUNQUEUED")
    match verb:
        case "FinishJob":
            return ("200 OK", "FINISHED") if is_running else (NOT_RUNNING, state)
        case "RetryJob":
            return ("200 OK", "QUEUED") if is_running else (NOT_RUNNING, state)
        case "FailJob":
            return ("200 OK", "FAILED") if is_running else (NOT_FAILING, state)
        case "CancelJob":
            return "200 OK", state if state in ("RUNNING", "PAUSED", "FINISHED") else "CANCELLED"
        case "DeleteJob":
            return (NOT_DELETED[state], state) if state in NOT_DELETED else ("200 OK", "gone")
        case _:
            return "200 OK", "QUEUED"


@pytest.mark.parametrize("verb", ["FinishJob", "RetryJob", "FailJob", "CancelJob", "DeleteJob", "RequeueJobs"])
@pytest.mark.parametrize("state", STATES)
async def test_the_table_of_a_child(bedrock: BedrockCommands, state: str, verb: str) -> None:
    number = await STATES[state](bedrock)
    assert await bedrock.state(number) == state
    line, after = expected(state, verb)
    result = await bedrock(verb, **{"jobIDs" if verb == "RequeueJobs" else "jobID": number})
    assert (result.line, result.text) == (line, "")
    assert await bedrock.state(number) == after


@pytest.mark.parametrize("state", STATES)
async def test_update_and_query_change_no_state(bedrock: BedrockCommands, state: str) -> None:
    number = await STATES[state](bedrock)
    before = await bedrock.query(number)
    await bedrock.ok("UpdateJob", jobID=number, data={"a": "12"})
    assert await bedrock.query(number) == before | {"data": {"a": "12"}}


@pytest.mark.parametrize(
    "verb", ["QueryJob", "UpdateJob", "FinishJob", "RetryJob", "FailJob", "CancelJob", "DeleteJob"]
)
@pytest.mark.parametrize(
    ("given", "line"),
    [
        (None, "402 Missing jobID"), ("", "402 Missing jobID"), ("x", "402 Malformed jobID"),
        ("007", "402 Malformed jobID"), ("+7", "402 Malformed jobID"), ("1.0", "402 Malformed jobID"),
        ("9223372036854775808", "402 Malformed jobID"), ("-0", "402 Malformed jobID"), ("77", UNKNOWN),
        ("0", UNKNOWN), ("-5", UNKNOWN), ("9223372036854775807", UNKNOWN),
    ],
)  # fmt: skip
async def test_numbers_of_jobs(bedrock: BedrockCommands, verb: str, given: str | None, line: str) -> None:
    assert (await bedrock(verb, jobID=given, data="{}")).line == line


# FinishJob and RetryJob


async def test_a_finished_job_is_gone(bedrock: BedrockCommands) -> None:
    number = await bedrock.running()
    assert (await bedrock.ok("FinishJob", jobID=number, delay=-1, nextRun="never")).text == ""
    assert await bedrock.state(number) == "gone"
    assert (await bedrock("FinishJob", jobID=number)).line == UNKNOWN


@pytest.mark.parametrize("verb", ["FinishJob", "RetryJob"])
async def test_a_child_waits_for_its_parent_to_wait(bedrock: BedrockCommands, verb: str) -> None:
    parent, child = await bedrock.parent_and_child()
    await bedrock.ok("RequeueJobs", jobIDs=child)
    await bedrock.get("child")
    refused = await bedrock(verb, jobID=child, data="no JSON")
    assert refused.line == "405 Can only retry/finish child job when parent is PAUSED"
    await bedrock.ok("FinishJob", jobID=parent)
    await bedrock.ok(verb, jobID=child)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"data": "no"}, "402 Data is not a valid JSON Object"),
        ({"data": {"mockRequest": True}}, "500 Mock Mismatch"),
        ({"jobPriority": 1}, "402 Invalid priority value"),
        ({"name": "n" * 256}, "402 Malformed name"),
        ({"delay": -1}, "402 Must specify a non-negative delay when retrying"),
        ({"delay": 123_456_789}, "402 Malformed delay"),
        ({"delay": "soon"}, "402 Malformed delay"),
        ({"nextRun": "soon", "delay": -1}, "402 Malformed nextRun"),
    ],
)
async def test_retries_that_are_refused(bedrock: BedrockCommands, given: dict[str, Any], line: str) -> None:
    number = await bedrock.running(data={"a": 1})
    before = await bedrock.query(number)
    assert (await bedrock("RetryJob", jobID=number, **given)).line == line
    assert await bedrock.query(number) == before


async def test_a_retry_with_everything(bedrock: BedrockCommands) -> None:
    number = await bedrock.running("old", data={"a": 1})
    await bedrock.ok(
        "RetryJob", jobID=number, nextRun="2999-01-01", delay=-5, name="new", data={"b": 2}, jobPriority=1000
    )
    row = await bedrock.query(number)
    assert (row["state"], row["nextRun"], row["name"], row["data"], row["priority"]) == (
        "QUEUED", "2999-01-01", "new", {"b": 2}, 1000,
    )  # fmt: skip
    assert await bedrock.create("new", unique=True, data={"b": 2}) == number, "it is known by its new name"
    assert await bedrock.create("old", unique=True) != number


async def test_a_retry_after_a_delay(bedrock: BedrockCommands) -> None:
    number = await bedrock.running()
    await bedrock.ok("RetryJob", jobID=number, delay=60)
    row = await bedrock.query(number)
    assert "." not in row["nextRun"]
    assert (await bedrock("GetJob", name="*")).line == "404 No job found"
    bedrock.advance(61)
    assert (await bedrock.get())["nextRun"] == row["nextRun"]
    await bedrock.ok("RetryJob", jobID=number)
    assert (await bedrock.get())["jobID"] == number, "without a delay it is due at once"


@pytest.mark.parametrize(
    ("rule", "expected_at"),
    [
        ("SCHEDULED, +1 DAY", "2020-01-02 10:00:00"),
        ("scheduled, +1 month, start of month", "2020-02-01 00:00:00"),
        ("SCHEDULED, WEEKDAY 0", "2020-01-05 10:00:00"),
        ("SCHEDULED, START OF HOUR, -30 MINUTES", "2020-01-01 09:30:00"),
    ],
)
@pytest.mark.parametrize("verb", ["FinishJob", "RetryJob"])
async def test_a_job_that_repeats(bedrock: BedrockCommands, verb: str, rule: str, expected_at: str) -> None:
    """D2, D7: runs follow each other until it has caught up; the rule is shown as typed."""
    number = await bedrock.running(repeat=rule, firstRun="2020-01-01 10:00:00", data={"a": 1})
    await bedrock.ok(verb, jobID=number, data={"a": 2}, nextRun="2999-01-01", delay=5)
    row = await bedrock.query(number)
    assert (row["state"], row["nextRun"], row["data"], row["repeat"]) == ("QUEUED", expected_at, {"a": 2}, rule)
    assert (await bedrock.get())["data"] == {"a": 2}


@pytest.mark.parametrize(("rule", "seconds"), [("HOURLY", 3600), ("Daily", 86_400), ("WEEKLY", 7 * 86_400)])
async def test_canned_rules(bedrock: BedrockCommands, rule: str, seconds: int) -> None:
    """D1: counted from the end of the run, not rounded."""
    number = await bedrock.running(repeat=rule, firstRun="2020-01-01")
    bedrock.advance(100)
    before = await bedrock.service.now()
    await bedrock.ok("FinishJob", jobID=number)
    job = (await bedrock.service.job([bedrock.service.numbered_id("bedrock", number)]).one()).job
    assert 0 <= job.run_at_ms - (before - before % 1000) - seconds * 1000 <= 60_000


@pytest.mark.parametrize("given", [{"ignoreRepeat": True}, {"ignoreRepeat": 1}, {"data": {"delete": True}}])
async def test_a_repeat_that_is_ignored(bedrock: BedrockCommands, given: dict[str, Any]) -> None:
    number = await bedrock.running(repeat="HOURLY")
    await bedrock.ok("FinishJob", jobID=number, **given)
    assert await bedrock.state(number) == "gone"


async def test_a_retry_that_ignores_the_repeat(bedrock: BedrockCommands) -> None:
    number = await bedrock.running(repeat="HOURLY")
    await bedrock.ok("RetryJob", jobID=number, ignoreRepeat=True, nextRun="2030-01-01 00:00:00")
    row = await bedrock.query(number)
    assert (row["nextRun"], row["repeat"]) == ("2030-01-01 00:00:00", "HOURLY")


async def test_a_rule_without_a_next_run(bedrock: BedrockCommands) -> None:
    number = await bedrock.running(repeat="SCHEDULED, +999 YEARS, +999 YEARS, +999 YEARS, +999 YEARS, +999 YEARS")
    await bedrock.ok("FinishJob", jobID=number)
    assert await bedrock.state(number) == "FAILED"


async def test_the_counter_is_removed(bedrock: BedrockCommands) -> None:
    number = await bedrock.running(retryAfter="+1 HOUR", data={"retryAfterCount": 3, "a": 1})
    await bedrock.ok("RetryJob", jobID=number)
    assert (await bedrock.query(number))["data"] == {"a": 1}
    assert (await bedrock.get())["data"] == {"a": 1}


async def test_data_of_a_finish_is_for_the_next_run(bedrock: BedrockCommands) -> None:
    """D12."""
    number = await bedrock.running(repeat="STARTED, -1 HOUR", data={"value": 1})
    await bedrock.ok("UpdateJob", jobID=number, data={"value": 2})
    await bedrock.ok("FinishJob", jobID=number, data={"value": 3})
    assert (await bedrock.get())["data"] == {"value": 3}


# Families


async def test_a_parent_with_children_runs_to_its_end(bedrock: BedrockCommands) -> None:
    parent, first = await bedrock.parent_and_child()
    second = await bedrock.create("child", parentJobID=parent)
    await bedrock.ok("FinishJob", jobID=parent, data={"handed": "over"})
    row = await bedrock.query(parent)
    assert (row["state"], row["data"], row["nextRun"]) == ("PAUSED", {"handed": "over"}, row["lastRun"])
    assert (await bedrock("GetJob", name="parent")).line == "404 No job found"
    await bedrock.get("child")
    await bedrock.ok("FinishJob", jobID=first, data={"n": 1})
    assert (await bedrock.state(first), await bedrock.state(parent)) == ("FINISHED", "PAUSED")
    await bedrock.get("child")
    await bedrock.ok("FinishJob", jobID=second)
    assert await bedrock.state(parent) == "QUEUED"
    assert [one["jobID"] for one in (await bedrock.get("parent"))["finishedChildJobs"]] == [first, second]
    third = await bedrock.create("child", parentJobID=parent)
    await bedrock.ok("FinishJob", jobID=parent)
    assert [await bedrock.state(one) for one in (parent, first, second, third)] == ["PAUSED", "gone", "gone", "QUEUED"]


async def test_a_retried_parent_loses_its_ended_children(bedrock: BedrockCommands) -> None:
    parent, child = await bedrock.parent_and_child()
    await bedrock.ok("FinishJob", jobID=parent)
    await bedrock.get("child")
    await bedrock.ok("FinishJob", jobID=child)
    await bedrock.get("parent")
    held = await bedrock.create("late", parentJobID=parent)
    await bedrock.ok("RetryJob", jobID=parent)
    assert [await bedrock.state(one) for one in (parent, child, held)] == ["QUEUED", "gone", "PAUSED"]


async def test_a_child_that_repeats_keeps_its_parent_waiting(bedrock: BedrockCommands) -> None:
    parent, child = await bedrock.parent_and_child(repeat="STARTED, -1 DAY")
    await bedrock.ok("FinishJob", jobID=parent)
    await bedrock.get("child")
    await bedrock.ok("FinishJob", jobID=child)
    assert (await bedrock.state(child), await bedrock.state(parent)) == ("QUEUED", "PAUSED")


async def test_a_failed_last_child(bedrock: BedrockCommands) -> None:
    """D13: its parent resumes and may finish; the child stays, without a parent, until it is deleted."""
    child = await running(bedrock)
    parent = (await bedrock.row(child))["parentJobID"]
    await bedrock.ok("FailJob", jobID=child, data={"why": "x"})
    assert await bedrock.state(parent) == "QUEUED"
    again = await bedrock.get("parent")
    assert again["failedChildJobs"] == [{"data": {"why": "x"}, "jobID": child}]
    assert (again["finishedChildJobs"], again["cancelledChildJobs"]) == ([], [])
    await bedrock.ok("FinishJob", jobID=parent)
    row = await bedrock.row(child)
    assert (await bedrock.state(parent), row["state"], row["parentJobID"], row["data"]) == (
        "gone", "FAILED", 0, {"why": "x"},
    )  # fmt: skip
    bedrock.advance(10 * 365 * 86_400)
    await bedrock.service.clean()
    assert await bedrock.state(child) == "FAILED"
    await bedrock.ok("DeleteJob", jobID=child)
    assert await bedrock.state(child) == "gone"


async def test_a_failed_job_fails_though_it_repeats(bedrock: BedrockCommands) -> None:
    number = await bedrock.running(repeat="HOURLY", data={"a": 1})
    await bedrock.ok("FailJob", jobID=number)
    row = await bedrock.query(number)
    assert (row["state"], row["data"]) == ("FAILED", {"a": 1})


async def test_jobs_that_cannot_be_cancelled(bedrock: BedrockCommands) -> None:
    alone = await bedrock.create("alone")
    refused = await bedrock("CancelJob", jobID=alone)
    assert refused.line == "404 Invalid jobID - Cannot cancel a job without a parent"
    parent, _ = await bedrock.parent_and_child()
    assert (await bedrock("CancelJob", jobID=parent)).line == "404 Invalid jobID - Cannot cancel a job with children"


async def test_a_cancel_resumes_the_parent_past_paused_siblings(bedrock: BedrockCommands) -> None:
    parent, first = await bedrock.parent_and_child()
    second = await bedrock.create("child", parentJobID=parent)
    await bedrock.ok("FinishJob", jobID=parent)
    await bedrock.ok("CancelJob", jobID=first)
    assert await bedrock.state(parent) == "PAUSED"
    await bedrock.ok("CancelJob", jobID=second)
    assert await bedrock.state(parent) == "QUEUED"


async def test_a_deleted_child_does_not_resume_its_parent(bedrock: BedrockCommands) -> None:
    child = await queued(bedrock)
    parent = (await bedrock.row(child))["parentJobID"]
    await bedrock.ok("DeleteJob", jobID=child)
    assert await bedrock.state(parent) == "PAUSED"


# RequeueJobs


async def test_requeued_jobs(bedrock: BedrockCommands) -> None:
    first = await bedrock.running("a", firstRun="2020-01-01")
    second = await bedrock.running("b", retryAfter="+1 HOUR")
    third = await bedrock.running("c", retryAfter="+1 HOUR")
    assert (await bedrock.ok("RequeueJobs", jobIDs=f"{first}, 77,{second},x")).text == ""
    await bedrock.ok("RequeueJobs", jobIDs=third, decrementFailures="true", name="renamed")
    for number, name, data in ((first, "a", {}), (second, "b", {"retryAfterCount": 1}), (third, "renamed", {})):
        row = await bedrock.query(number)
        assert (row["state"], row["name"], row["data"]) == ("QUEUED", name, data)
        assert row["nextRun"][:19] == row["created"]
    assert (await bedrock.get("renamed"))["jobID"] == third
    assert (await bedrock.ok("RequeueJobs", jobIDs="")).text == ""
    assert (await bedrock.ok("RequeueJobs")).text == ""


async def test_a_job_without_deliveries_left_is_requeued(bedrock: BedrockCommands) -> None:
    number = await bedrock.create("job", retryAfter="+0 SECOND")
    for _ in range(10):
        await bedrock.get("job")
    assert (await bedrock("GetJob", name="job")).text == "{}"
    await bedrock.ok("RequeueJobs", jobIDs=number, decrementFailures=1)
    row = await bedrock.query(number)
    assert (row["state"], row["data"]) == ("QUEUED", {"retryAfterCount": 9})
    assert (await bedrock.get("job"))["data"] == {"retryAfterCount": 9}


async def test_a_requeued_parent_keeps_its_finished_children(bedrock: BedrockCommands) -> None:
    child = await running(bedrock)
    parent = (await bedrock.row(child))["parentJobID"]
    await bedrock.ok("FinishJob", jobID=child)
    await bedrock.get("parent")
    await bedrock.ok("RequeueJobs", jobIDs=parent)
    assert [one["jobID"] for one in (await bedrock.get("parent"))["finishedChildJobs"]] == [child]


# UpdateJob


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({}, "402 Missing data"),
        ({"data": ""}, "402 Missing data"),
        (
            {"data": '{"a":"' + "x" * 1024 * 1024 + '"}'},
            "402 Malformed data: it has 1048584 bytes, at most 1048576 are allowed",
        ),
        ({"data": "[}"}, "402 Data is not a valid JSON Object"),
        ({"data": "{}", "repeat": "SOON"}, "402 Malformed repeat"),
        ({"data": "{}", "jobPriority": 5}, "402 Invalid priority value"),
        ({"data": "{}", "nextRun": "x"}, "402 Malformed nextRun"),
    ],
)
async def test_updates_that_are_refused(bedrock: BedrockCommands, given: dict[str, Any], line: str) -> None:
    number = await bedrock.create(data={"a": 1})
    before = await bedrock.query(number)
    assert (await bedrock("UpdateJob", jobID=number, **given)).line == line
    assert await bedrock.query(number) == before


@pytest.mark.parametrize(
    ("given", "changed"),
    [
        ({"jobPriority": 1000}, {"priority": 1000}),
        ({"nextRun": "2030-01-01"}, {"nextRun": "2030-01-01"}),
        ({"repeat": "SCHEDULED, +1 DAY"}, {"repeat": "SCHEDULED, +1 DAY", "nextRun": "2999-01-02 00:00:00"}),
        ({"repeat": "DAILY", "nextRun": "2030-01-01"}, {"repeat": "DAILY", "nextRun": "2030-01-01"}),
        ({"repeat": ""}, {}),
        ({"shouldClearRepeat": 1}, {"repeat": ""}),
        ({"shouldClearRepeat": True, "repeat": "DAILY"}, {"repeat": ""}),
        ({"shouldClearRepeat": 0}, {}),
    ],
)
async def test_changes_of_an_update(bedrock: BedrockCommands, given: dict[str, Any], changed: dict[str, Any]) -> None:
    number = await bedrock.create(repeat="HOURLY", firstRun="2999-01-01")
    before = await bedrock.query(number)
    await bedrock.ok("UpdateJob", jobID=number, data={"x": 1}, **given)
    assert await bedrock.query(number) == before | {"data": {"x": 1}} | changed


async def test_an_update_from_the_start_of_a_job_that_never_started(bedrock: BedrockCommands) -> None:
    number = await bedrock.create()
    await bedrock.ok("UpdateJob", jobID=number, data={}, repeat="STARTED, +1 YEAR")
    assert (await bedrock.query(number))["nextRun"] > (await bedrock.query(number))["created"]


async def test_an_update_keeps_a_job_mocked_or_not(bedrock: BedrockCommands) -> None:
    mocked, real = await bedrock.create("m", mockRequest=""), await bedrock.create("r")
    await bedrock.ok("UpdateJob", jobID=mocked, data={"a": 1})
    await bedrock.ok("UpdateJob", jobID=real, data={"mockRequest": True, "a": 1})
    assert (await bedrock.query(mocked))["data"] == {"a": 1, "mockRequest": True}
    assert (await bedrock.query(real))["data"] == {"a": 1}
    assert (await bedrock.get("r"))["jobID"] == real


async def test_an_update_overwrites_the_counter(bedrock: BedrockCommands) -> None:
    number = await bedrock.running(retryAfter="+1 HOUR")
    await bedrock.ok("UpdateJob", jobID=number, data={"a": 1})
    assert (await bedrock.query(number))["data"] == {"a": 1}
    await bedrock.ok("UpdateJob", jobID=number, data={"a": 1, "retryAfterCount": 7})
    assert (await bedrock.query(number))["data"] == {"a": 1, "retryAfterCount": 7}
    bedrock.advance(3601)
    assert (await bedrock.get())["data"] == {"a": 1, "retryAfterCount": 7}
    assert (await bedrock.query(number))["data"] == {"a": 1, "retryAfterCount": 8}


async def test_an_update_moves_when_a_job_may_be_taken_over(bedrock: BedrockCommands) -> None:
    number = await bedrock.running(retryAfter="+1 HOUR")
    await bedrock.ok("UpdateJob", jobID=number, data={}, nextRun="2999-01-01 00:00:00")
    row = await bedrock.query(number)
    assert (row["state"], row["nextRun"]) == ("RUNQUEUED", "2999-01-01 00:00:00")
    bedrock.advance(3700)
    assert (await bedrock("GetJob", name="*")).line == "404 No job found"
    await bedrock.ok("UpdateJob", jobID=number, data={}, nextRun="2001-01-01")
    assert (await bedrock.get())["jobID"] == number


# Mocked jobs


@pytest.mark.parametrize("verb", ["FinishJob", "RetryJob"])
async def test_mocked_jobs_are_finished_in_any_state(bedrock: BedrockCommands, verb: str) -> None:
    number = await bedrock.create(mockRequest="")
    assert (await bedrock(verb, jobID=number, data={"a": 1})).line == "500 Mock Mismatch"
    await bedrock.ok(verb, jobID=number, data={"a": 1, "mockRequest": True})
    assert await bedrock.state(number) == ("gone" if verb == "FinishJob" else "QUEUED")
    failed = await bedrock.running("failed", mockRequest="")
    await bedrock.ok("FailJob", jobID=failed)
    await bedrock.ok(verb, jobID=failed)
    assert await bedrock.state(failed) == ("gone" if verb == "FinishJob" else "QUEUED")


async def test_unknown_verbs(bedrock: BedrockCommands) -> None:
    assert (await bedrock("Nonsense")).line == "430 Unrecognized command"
