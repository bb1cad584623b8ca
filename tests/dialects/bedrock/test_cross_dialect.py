"""Bedrock jobs and other dialects: run by an SDK worker, enqueued by the SDK, shown by the native API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.dialects.bedrock.command_router import BedrockCommands
from tests.support.api_client import Api
from windlass import Windlass, Worker
from windlass.core.access.tokens import Principal, Role
from windlass.core.errors import REFUSALS
from windlass.core.ids import format_id
from windlass.core.job import Blob, Codec, Job, NewJob, Timeline
from windlass.core.operations import Finish, Take
from windlass.core.states import State
from windlass.dialects.bedrock.command_router import CommandRouter
from windlass.dialects.bedrock.record import STATES
from windlass.dialects.bedrock.refusals import STATUS_LINES
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]


@pytest.fixture
async def app(store: Store, bedrock: BedrockCommands) -> AsyncIterator[Windlass]:
    app = Windlass()
    app.connect(store)
    yield app
    app.close()


async def test_a_job_made_here_is_worked_by_the_sdk(bedrock: BedrockCommands, app: Windlass) -> None:
    worked: asyncio.Queue[tuple[str, int]] = asyncio.Queue()

    @app.task(name="greet", queue="bedrock")
    async def greet(who: str, times: int) -> None:
        worked.put_nowait((who, times))

    number = await bedrock.create("greet", data={"who": "ann", "times": 3})
    repeating = await bedrock.create("greet", data={"who": "bob", "times": 1}, repeat="STARTED, +1 YEAR")
    worker = Worker(app, queues=["bedrock"], concurrency=1, burst=True)
    await worker.run()
    assert [worked.get_nowait(), worked.get_nowait()] == [("ann", 3), ("bob", 1)]
    assert await bedrock.state(number) == "gone"
    row = await bedrock.query(repeating)
    assert row["state"] == "QUEUED"
    assert row["lastRun"][:4] < row["nextRun"][:4]


async def test_a_job_of_the_sdk_is_worked_here(bedrock: BedrockCommands, app: Windlass) -> None:
    @app.task(name="greet", queue="bedrock")
    async def greet(who: str) -> None: ...

    own = await bedrock.create("own")
    handle = await greet.aenqueue(who="ann")
    row = await bedrock.get("gr*")
    assert row["jobID"] == own + 1, "it got the next number when it was first shown"
    assert (row["name"], row["data"], row["priority"], row["lastRun"]) == ("greet", {"who": "ann"}, 500, "")
    assert (await bedrock.query(row["jobID"]))["state"] == "RUNNING"
    assert await bedrock.create("next") == row["jobID"] + 1
    await bedrock.ok("UpdateJob", jobID=row["jobID"], data={"who": "bob"})
    assert (await bedrock.ok("Query", query="select jobID, data from jobs where name = 'greet';")).body == [
        [row["jobID"], {"who": "bob"}]
    ]
    await bedrock.ok("FinishJob", jobID=row["jobID"])
    assert await bedrock.state(row["jobID"]) == "gone"
    assert handle is not None


async def test_the_native_view(bedrock: BedrockCommands, json_api: Api) -> None:
    parent = await bedrock.running("parent", data={"a": 1}, jobPriority=1000)
    child = await bedrock.create("child", parentJobID=parent, retryAfter="+5 MINUTES", mockRequest="x")
    seen = await _native(bedrock, json_api, parent)
    assert {
        "queue": "bedrock", "name": "parent", "state": "running", "payload": {"a": 1}, "priority": -500,
        "lease_deadline_at_ms": None, "is_hidden": False, "attempt": 1,
    }.items() <= seen.items()  # fmt: skip
    kid = await _native(bedrock, json_api, child)
    assert {
        "state": "waiting", "is_held": True, "parent": seen["id"], "retake": True, "lease_rule": "+5 MINUTES",
        "lease_ms": 300_000, "is_hidden": False,
    }.items() <= kid.items()  # fmt: skip
    await bedrock.ok("FinishJob", jobID=parent)
    assert (await _native(bedrock, json_api, parent))["state"] == "waiting"
    assert (await _native(bedrock, json_api, child))["state"] == "queued"


async def _native(bedrock: BedrockCommands, api: Api, number: int) -> dict[str, Any]:
    written = format_id(bedrock.service.numbered_id("bedrock", number))
    answered = await api.request("GET", f"/api/v1/jobs/{written}")
    assert answered.status == 200, answered
    found: dict[str, Any] = answered.body
    return found.get("job", found)


async def test_payloads_of_other_kinds(bedrock: BedrockCommands) -> None:
    """A payload that is not an object has no server keys. A payload that JSON cannot hold is shown as empty."""
    for payload, shown in (
        (Blob(b"[1,2]"), [1, 2]),
        (Blob(b"null"), {}),
        (Blob(b"\x81\xa1a\x01", Codec.MSGPACK), {"a": 1}),
        (Blob(b"\xff", Codec.RAW), {}),
    ):
        await bedrock.service.enqueue([NewJob(queue="bedrock", name="n", payload=payload)])
        row = await bedrock.get("n")
        assert row["data"] == shown
        await bedrock.ok("FinishJob", jobID=row["jobID"])


async def test_a_job_of_another_dialect_does_not_expire(bedrock: BedrockCommands) -> None:
    """Bedrock clients do not extend leases."""
    await bedrock.service.enqueue([NewJob(queue="bedrock", name="n", lease_ms=1_000)])
    row = await bedrock.get("n")
    bedrock.advance(3_600)
    await bedrock.service.recover()
    assert await bedrock.state(row["jobID"]) == "RUNNING"


async def test_jobs_of_the_history_are_not_there(bedrock: BedrockCommands) -> None:
    await bedrock.create("first")
    await bedrock.service.configure("bedrock", {"history_length": 10})
    done = await bedrock.running("done")
    await bedrock.ok("FinishJob", jobID=done)
    assert await bedrock.state(done) == "gone"
    assert (await bedrock("RequeueJobs", jobIDs=done)).line == "200 OK"
    assert await bedrock.state(done) == "gone"
    assert await bedrock.create("done", unique=True) != done


async def _foreign(bedrock: BedrockCommands) -> tuple[Job, int]:
    """Make a running job of another queue with a number that a client could guess whose token is not for the queue."""
    bedrock.client.principal = Principal("shop", frozenset(Role), queues=("bedrock",))
    await bedrock.service.enqueue([NewJob(queue="other", name="S3CRET", payload=Blob(b'{"x":"S3CRET"}'))])
    (job,) = (await bedrock.service.take(Take(queues=("other",)))).jobs
    (number,) = await bedrock.service.number([job.id])
    (found,) = await bedrock.service.job([job.id])
    assert isinstance(found, Timeline)
    assert isinstance(number, int)
    return found.job, number


@pytest.mark.parametrize(
    ("verb", "given"),
    [
        *((verb, {"jobID": None}) for verb in ("QueryJob", "UpdateJob", "FinishJob", "RetryJob", "FailJob")),
        *((verb, {"jobID": None}) for verb in ("CancelJob", "DeleteJob")),
        ("CreateJob", {"name": "child", "parentJobID": None}),
        ("RequeueJobs", {"jobIDs": None}),
    ],
)
async def test_no_command_reaches_a_job_of_another_queue_by_its_number(
    bedrock: BedrockCommands, verb: str, given: dict[str, Any]
) -> None:
    """A token for this queue must not reach it in any other way."""
    before, number = await _foreign(bedrock)
    result = await bedrock(verb, data={"y": 1}, **{name: value or number for name, value in given.items()})
    assert result.line.startswith("404 ") or verb == "RequeueJobs"
    assert "S3CRET" not in result.text + result.line
    (after,) = await bedrock.service.job([before.id])
    assert isinstance(after, Timeline)
    assert after.job == before


async def test_no_list_of_jobs_reaches_a_parent_in_another_queue(bedrock: BedrockCommands) -> None:
    before, number = await _foreign(bedrock)
    jobs = [{"name": "alone"}, {"name": "child", "parentJobID": number}]
    assert (await bedrock("CreateJobs", jobs=jobs)).line == "404 parentJobID does not exist"
    assert not (await bedrock.service.list_members(before.id)).members


async def test_children_in_other_queues_are_not_shown(bedrock: BedrockCommands) -> None:
    """A parent that runs again shows only the data of its children in queues that the token is for."""
    parent = await bedrock.running("parent")
    parent_id = bedrock.service.numbered_id("bedrock", parent)
    await bedrock.service.enqueue([NewJob(queue="other", name="c", payload=Blob(b'{"x":"S3CRET"}'), parent=parent_id)])
    await bedrock.ok("FinishJob", jobID=parent)
    (child,) = (await bedrock.service.take(Take(queues=("other",)))).jobs
    await bedrock.service.finish([Finish(child.id, child.lease_token)])
    bedrock.client.principal = Principal("shop", frozenset(Role), queues=("bedrock",))
    assert "S3CRET" not in (await bedrock.ok("GetJob", name="parent")).text


async def test_a_configured_queue_keeps_its_settings(bedrock: BedrockCommands) -> None:
    await bedrock.create()
    await bedrock.service.configure("bedrock", {"retention_ms": 5_000})
    other = BedrockCommands(bedrock.service)
    assert isinstance(other.router, CommandRouter)
    await other.create()
    assert (await bedrock.service.configuration("bedrock")).retention_ms == 5_000


async def test_parent_and_child_across_dialects(bedrock: BedrockCommands) -> None:
    """A child of another dialect is shown here with its outcome."""
    parent = await bedrock.running("parent")
    parent_id = bedrock.service.numbered_id("bedrock", parent)
    (child,) = await bedrock.service.enqueue(
        [NewJob(queue="bedrock", name="child", payload=Blob(b'{"x":1}'), parent=parent_id, held=True)]
    )
    await bedrock.ok("FinishJob", jobID=parent)
    taken = await bedrock.service.take(Take(queues=("bedrock",)))
    await bedrock.service.finish([Finish(taken.jobs[0].id, taken.jobs[0].lease_token)])
    again = await bedrock.get("parent")
    (number,) = await bedrock.service.number([child.id])  # type: ignore[union-attr]
    assert again["finishedChildJobs"] == [{"data": {"x": 1}, "jobID": number}]


async def test_every_refusal_and_state_has_a_name(bedrock: BedrockCommands) -> None:
    assert set(STATUS_LINES) == set(REFUSALS.values())
    assert set(STATES) == set(State)
    assert bedrock is not None
