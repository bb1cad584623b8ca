"""Commands that name queues: create, take, and every command by number for a job of any queue."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.dialects.bedrock.command_router import BedrockCommands
from tests.dialects.bedrock.queues.conftest import queue_beside, queue_elsewhere
from windlass.core.job import Blob, Codec, Job, NewJob, Timeline
from windlass.core.operations import Finish, Take
from windlass.core.states import State
from windlass.core.validation.bounds import QUEUES_PER_TAKE

pytestmark = [pytest.mark.anyio]


async def _job(bedrock: BedrockCommands, number: int) -> Job:
    (job_id,) = await bedrock.service.find_numbers([number])
    assert isinstance(job_id, bytes)
    (found,) = await bedrock.service.job([job_id])
    assert isinstance(found, Timeline)
    return found.job


async def _foreign(bedrock: BedrockCommands, queue: str, **fields: object) -> int:
    """Enqueue a job as another dialect does, and return its number."""
    (made,) = await bedrock.service.enqueue([NewJob(queue=queue, name="send", **fields)])  # type: ignore[arg-type]
    (number,) = await bedrock.service.number([made.id])  # type: ignore[union-attr]
    assert isinstance(number, int)
    return number


async def test_a_job_is_created_in_its_queue_and_taken_from_it(anywhere: BedrockCommands) -> None:
    queue = queue_elsewhere(anywhere.service.store)
    number = await anywhere.create("send", queue=queue, data={"to": "ada"})
    own = await anywhere.create("own")
    assert number != own
    assert (await _job(anywhere, number)).queue == queue
    assert (await anywhere.query(number))["queue"] == queue
    assert "queue" not in await anywhere.query(own)
    row = await anywhere.get("*", queue=queue)
    assert (row["jobID"], row["queue"], row["data"]) == (number, queue, {"to": "ada"})
    assert (await anywhere("GetJob", name="*", queue=queue)).line == "404 No job found"
    taken = await anywhere.get()
    assert taken["jobID"] == own
    assert "queue" not in taken
    await anywhere.ok("FinishJob", jobID=number)
    assert await anywhere.state(number) == "gone"


async def test_without_a_queue_jobs_of_other_queues_are_not_taken(bedrock: BedrockCommands) -> None:
    await bedrock.create("send", queue="mail")
    assert (await bedrock("GetJob", name="*")).line == "404 No job found"
    assert (await bedrock("GetJob", name="*", queue="")).line == "404 No job found"


async def test_jobs_are_taken_from_several_queues_in_their_order(anywhere: BedrockCommands) -> None:
    near, far = queue_beside(anywhere.service.store), queue_elsewhere(anywhere.service.store)
    numbers = [await anywhere.create("send", queue=queue) for queue in ("bedrock", near, far)]
    names = f" {far}, {near} ,bedrock,{near}"
    rows = (await anywhere.ok("GetJobs", name="*", numResults=9, queues=names)).body["jobs"]
    assert {row["jobID"]: row.get("queue") for row in rows} == dict(zip(numbers, [None, near, far], strict=True))
    first = await anywhere.create("send", queue=near)
    await anywhere.create("send", jobPriority=1000)
    assert (await anywhere.get("*", queues=f"{near},bedrock"))["jobID"] == first, "the order of queues beats priorities"


async def test_a_client_waits_for_jobs_of_several_queues(anywhere: BedrockCommands) -> None:
    far = queue_elsewhere(anywhere.service.store)
    headers = {"queues": f"bedrock,{far}", "Connection": "wait", "timeout": 20_000}
    waiting = asyncio.create_task(anywhere.get("send", **headers))
    while (await anywhere.service.stats([far]))[0].waiting_takers < 1:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    number = await anywhere.create("send", queue=far)
    assert (await waiting)["jobID"] == number


@pytest.mark.parametrize(("name", "others"), [("a*", "b"), ("a1,a2", "b"), ("[ab]?", "c")])
async def test_a_queue_without_name_lanes_gets_them_when_a_client_takes_by_name(
    bedrock: BedrockCommands, name: str, others: str
) -> None:
    for job_name in (others, others, "a1"):
        await bedrock.service.enqueue([NewJob(queue="mail", name=job_name)])
    assert not (await bedrock.service.configuration("mail")).name_lanes
    await bedrock.ok("GetJob", name="*", queue="mail")
    assert not (await bedrock.service.configuration("mail")).name_lanes, "a take of any name needs none"
    assert (await bedrock.get(name, queue="mail"))["name"] == "a1"
    assert (await bedrock.service.configuration("mail")).name_lanes
    assert (await bedrock("GetJob", name=name, queue="mail")).line == "404 No job found"
    assert (await bedrock.get(others, queue="mail"))["name"] == others


async def test_every_command_by_number_works_in_any_queue(anywhere: BedrockCommands) -> None:
    """A job made elsewhere gets a number; over several partitions the number has the partition as its prefix."""
    queue = queue_elsewhere(anywhere.service.store)
    number = await _foreign(anywhere, queue, payload=Blob(b"\x81\xa1a\x01", Codec.MSGPACK), priority=-7, lease_ms=9)
    assert (await anywhere.query(number))["priority"] == 507
    assert (await anywhere.get("send", queue=queue))["data"] == {"a": 1}
    await anywhere.ok("UpdateJob", jobID=number, data={"b": 2}, jobPriority=1000)
    await anywhere.ok("RetryJob", jobID=number, name="again")
    row = await anywhere.get("again", queue=queue)
    assert (row["jobID"], row["data"], row["priority"]) == (number, {"b": 2}, 1000)
    await anywhere.ok("FailJob", jobID=number)
    assert await anywhere.state(number) == "FAILED"
    await anywhere.ok("RequeueJobs", jobIDs=number)
    assert await anywhere.state(number) == "QUEUED"
    await anywhere.ok("DeleteJob", jobID=number)
    assert await anywhere.state(number) == "gone"


async def test_a_parent_and_its_child_in_different_queues(anywhere: BedrockCommands) -> None:
    near = queue_beside(anywhere.service.store)
    parent = await anywhere.running("parent", data={"p": 1})
    child = await anywhere.create("child", parentJobID=parent, queue=near)
    await anywhere.ok("FinishJob", jobID=parent)
    row = await anywhere.get("*", queue=near)
    assert (row["jobID"], row["parentJobID"], row["parentData"]) == (child, parent, {"p": 1})
    await anywhere.ok("FinishJob", jobID=child, data={"found": 7})
    assert (await anywhere.get("parent"))["finishedChildJobs"] == [{"data": {"found": 7}, "jobID": child}]
    sibling = await anywhere.create("child", parentJobID=parent, queue=near)
    await anywhere.ok("FinishJob", jobID=parent)
    await anywhere.ok("CancelJob", jobID=sibling)
    assert [found["jobID"] for found in (await anywhere.get("parent"))["cancelledChildJobs"]] == [sibling]


async def test_a_child_in_another_partition_is_refused(anywhere: BedrockCommands) -> None:
    store = anywhere.service.store
    far = queue_elsewhere(store)
    parent = await anywhere.running("parent")
    result = await anywhere("CreateJob", name="child", parentJobID=parent, queue=far)
    assert result.line == ("200 OK" if store.partitions == 1 else "405 The parent lies in another partition")


async def test_create_jobs_has_a_queue_per_object_and_a_default(bedrock: BedrockCommands) -> None:
    jobs = [{"name": "a"}, {"name": "b", "queue": "other"}, {"name": "c", "queue": None}, {"name": "d", "queue": ""}]
    numbers = (await bedrock.ok("CreateJobs", jobs=jobs, queue="mail")).body["jobIDs"]
    assert [(await bedrock.query(number))["queue"] for number in numbers] == ["mail", "other", "mail", "mail"]
    (own,) = (await bedrock.ok("CreateJobs", jobs=[{"name": "a"}])).body["jobIDs"]
    assert "queue" not in await bedrock.query(own)


async def test_create_jobs_over_partitions_is_refused_as_a_whole(anywhere: BedrockCommands) -> None:
    store = anywhere.service.store
    near, far = queue_beside(store), queue_elsewhere(store)
    spread = await anywhere("CreateJobs", jobs=[{"name": "a"}, {"name": "b", "queue": far}])
    if store.partitions > 1:
        assert spread.line == "405 The jobs of a command must lie in one partition"
        assert (await anywhere("GetJob", name="*")).line == "404 No job found"
    else:
        assert spread.line == "200 OK"
    for queues in ((far, far), ("bedrock", near)):
        jobs = [{"name": "c", "queue": queue} for queue in queues]
        numbers = (await anywhere.ok("CreateJobs", jobs=jobs)).body["jobIDs"]
        assert [(await _job(anywhere, number)).queue for number in numbers] == list(queues)


async def test_unique_is_unique_in_its_queue(anywhere: BedrockCommands) -> None:
    far = queue_elsewhere(anywhere.service.store)
    here = await anywhere.create("nightly", unique=True, data={"a": 1})
    there = await anywhere.create("nightly", unique=True, data={"b": 1}, queue=far)
    assert here != there
    assert await anywhere.create("nightly", unique=True, data={"c": 2}, queue=far) == there
    assert (await anywhere.query(there))["data"] == {"b": 1, "c": 2}
    assert (await anywhere.query(here))["data"] == {"a": 1}


async def test_unique_names_within_one_command_are_told_apart_by_queue(bedrock: BedrockCommands) -> None:
    jobs = [{"name": "n", "unique": True, "queue": queue} for queue in ("mail", "other", "mail")]
    first, second, third = (await bedrock.ok("CreateJobs", jobs=jobs)).body["jobIDs"]
    assert first == third != second


@pytest.mark.parametrize("verb", ["CreateJob", "GetJob"])
@pytest.mark.parametrize("name", ["a\x01b", "q" * 256, "é" * 128])
async def test_malformed_queues(bedrock: BedrockCommands, verb: str, name: str) -> None:
    assert (await bedrock(verb, name="n", queue=name)).line == "402 Malformed queue"
    assert (await bedrock("Query", query="select 1;", queue=name)).line == "402 Malformed queue"
    assert (await bedrock("CreateJobs", jobs=[{"name": "n", "queue": name}])).line == "402 Malformed queue"


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"queues": " , "}, "402 Malformed queues"),
        ({"queues": "a,b\x01"}, "402 Malformed queues"),
        ({"queues": ",".join(f"q{number}" for number in range(QUEUES_PER_TAKE + 1))}, "402 Malformed queues"),
        ({"queue": "a", "queues": "b"}, "402 Cannot use queue with queues"),
    ],
)
async def test_malformed_lists_of_queues(bedrock: BedrockCommands, given: dict[str, str], line: str) -> None:
    assert (await bedrock("GetJob", name="n", **given)).line == line
    assert (await bedrock("GetJobs", name="n", numResults=2, **given)).line == line


@pytest.mark.parametrize("value", [5, ["mail"], {"a": 1}, True])
async def test_a_queue_in_an_object_is_a_text(bedrock: BedrockCommands, value: object) -> None:
    assert (await bedrock("CreateJobs", jobs=[{"name": "n", "queue": value}])).line == "402 Malformed queue"


# Jobs made elsewhere


async def test_a_taken_job_of_another_queue_does_not_expire(bedrock: BedrockCommands) -> None:
    number = await _foreign(bedrock, "mail", lease_ms=1_000)
    await bedrock.get("*", queue="mail")
    bedrock.advance(3_600)
    await bedrock.service.recover()
    assert await bedrock.state(number) == "RUNNING"


@pytest.mark.parametrize(
    ("queue", "settings", "state"),
    [
        ("job_queue_mail", {}, "QUEUED"),
        ("job_queue_mail", {"lease_renewal": True}, "RUNNING"),
        ("mail", {"lease_renewal": False}, "QUEUED"),
    ],
)
async def test_a_queue_with_a_fixed_visibility_timeout_keeps_it(
    bedrock: BedrockCommands, queue: str, settings: dict[str, Any], state: str
) -> None:
    if settings:
        await bedrock.service.configure(queue, settings)
    number = await _foreign(bedrock, queue, lease_ms=1_000)
    await bedrock.get("*", queue=queue)
    bedrock.advance(2)
    await bedrock.service.recover()
    assert await bedrock.state(number) == state


async def test_a_job_with_a_timeout_has_it_also_where_leases_are_fixed(bedrock: BedrockCommands) -> None:
    await bedrock.service.configure("mail", {"lease_renewal": False})
    number = await bedrock.create("send", queue="mail", jobTimeout="+1 HOUR")
    taken = await bedrock.get("*", queue="mail")
    assert taken["expires"] == (await bedrock.query(number))["expires"]
    bedrock.advance(3_590)
    await bedrock.service.recover()
    assert await bedrock.state(number) == "RUNNING"
    bedrock.advance(20)
    await bedrock.service.recover()
    assert await bedrock.state(number) == "QUEUED"


async def test_a_job_made_here_has_the_lease_of_its_queue_for_other_workers(bedrock: BedrockCommands) -> None:
    """A worker of another kind that dies must not keep it for ever."""
    number = await bedrock.create("send", queue="mail")
    await bedrock.service.take(Take(queues=("mail",)))
    bedrock.advance(31)
    await bedrock.service.recover()
    assert await bedrock.state(number) == "QUEUED"
    await bedrock.get("*", queue="mail")
    bedrock.advance(3_600)
    await bedrock.service.recover()
    assert await bedrock.state(number) == "RUNNING"


async def test_a_job_with_a_kept_result_ends_finished(bedrock: BedrockCommands) -> None:
    number = await _foreign(bedrock, "mail", result_ttl_ms=60_000)
    await bedrock.get("*", queue="mail")
    await bedrock.ok("FinishJob", jobID=number)
    assert (await _job(bedrock, number)).state is State.FINISHED
    assert await bedrock.state(number) == "FINISHED"


async def test_the_data_of_finish_job_are_the_result_of_a_job_made_elsewhere(anywhere: BedrockCommands) -> None:
    queue = queue_elsewhere(anywhere.service.store)
    number = await _foreign(anywhere, queue, result_ttl_ms=60_000, payload=Blob(b'{"a":1}'))
    await anywhere.get("*", queue=queue)
    assert (await anywhere("FinishJob", jobID=number, data="{")).line == "402 Data is not a valid JSON Object"
    await anywhere.ok("FinishJob", jobID=number, data={"sum": 7, "retryAfterCount": 1})
    job = await _job(anywhere, number)
    ending = await anywhere.service.result(job.id)
    assert ending is not None
    assert (ending.state, ending.result) == (State.FINISHED, Blob(b'{"sum":7}'))
    assert job.payload == Blob(b'{"a":1}')


async def test_the_data_of_finish_job_stay_data_for_the_next_run_and_for_parents(bedrock: BedrockCommands) -> None:
    repeating = await _foreign(bedrock, "mail", repeat="FINISHED, +1 HOUR")
    await bedrock.get("*", queue="mail")
    await bedrock.ok("FinishJob", jobID=repeating, data={"next": 1})
    assert (await bedrock.query(repeating))["data"] == {"next": 1}
    parent = await bedrock.running("parent")
    parent_id = bedrock.service.id_of_number(parent)
    child = await _foreign(bedrock, "mail", parent=parent_id, held=True)
    await bedrock.ok("FinishJob", jobID=parent)
    await bedrock.get("*", queue="mail")
    await bedrock.ok("FinishJob", jobID=child, data={"found": 7})
    assert (await bedrock.get("parent"))["finishedChildJobs"] == [{"data": {"found": 7}, "jobID": child}]


async def test_a_job_made_here_is_finished_by_another_worker(anywhere: BedrockCommands) -> None:
    queue = queue_elsewhere(anywhere.service.store)
    number = await anywhere.create("send", queue=queue, data={"to": "ada"})
    (job,) = (await anywhere.service.take(Take(queues=(queue,)))).jobs
    assert (job.name, job.payload) == ("send", Blob(b'{"to":"ada"}'))
    assert await anywhere.state(number) == "RUNNING"
    await anywhere.service.finish([Finish(job.id, job.lease_token)])
    assert await anywhere.state(number) == "gone"


@pytest.mark.parametrize("verb", ["RetryJob", "RequeueJobs"])
async def test_a_renamed_job_keeps_the_unique_key_of_another_dialect(bedrock: BedrockCommands, verb: str) -> None:
    """It may be the id by which that dialect finds the job."""
    number = await _foreign(bedrock, "mail", unique="uuid-1")
    await bedrock.get("*", queue="mail")
    await bedrock.ok(verb, jobID=number, jobIDs=number, name="renamed")
    job = await _job(bedrock, number)
    assert (job.name, job.unique) == ("renamed", "uuid-1")
    assert await bedrock.service.holder("mail", "uuid-1") == job.id


@pytest.mark.parametrize("verb", ["RetryJob", "RequeueJobs"])
async def test_a_renamed_job_made_here_is_found_by_its_new_name(bedrock: BedrockCommands, verb: str) -> None:
    number = await bedrock.create("old", queue="mail")
    await bedrock.get("*", queue="mail")
    await bedrock.ok(verb, jobID=number, jobIDs=number, name="new")
    assert await bedrock.create("new", queue="mail", unique=True) == number
    assert await bedrock.create("old", queue="mail", unique=True) != number
