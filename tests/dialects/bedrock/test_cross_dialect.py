"""The same jobs in other front ends: worked by an SDK worker, enqueued by the SDK, seen by the native API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.dialects.bedrock.command_router import AtDesk
from tests.support.api_client import Api
from windlass import Windlass, Worker
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
async def app(store: Store, desk: AtDesk) -> AsyncIterator[Windlass]:
    app = Windlass()
    app.connect(store)
    yield app
    app.close()


async def test_a_job_made_here_is_worked_by_the_sdk(desk: AtDesk, app: Windlass) -> None:
    worked: asyncio.Queue[tuple[str, int]] = asyncio.Queue()

    @app.task(name="greet", queue="bedrock")
    async def greet(who: str, times: int) -> None:
        worked.put_nowait((who, times))

    number = await desk.create("greet", data={"who": "ann", "times": 3})
    repeating = await desk.create("greet", data={"who": "bob", "times": 1}, repeat="STARTED, +1 YEAR")
    worker = Worker(app, queues=["bedrock"], concurrency=1, burst=True)
    await worker.run()
    assert [worked.get_nowait(), worked.get_nowait()] == [("ann", 3), ("bob", 1)]
    assert await desk.state(number) == "gone"
    row = await desk.query(repeating)
    assert row["state"] == "QUEUED"
    assert row["lastRun"][:4] < row["nextRun"][:4]


async def test_a_job_of_the_sdk_is_worked_here(desk: AtDesk, app: Windlass) -> None:
    @app.task(name="greet", queue="bedrock")
    async def greet(who: str) -> None: ...

    own = await desk.create("own")
    handle = await greet.aenqueue(who="ann")
    row = await desk.get("gr*")
    assert row["jobID"] == own + 1, "it got the next number when it was first shown"
    assert (row["name"], row["data"], row["priority"], row["lastRun"]) == ("greet", {"who": "ann"}, 500, "")
    assert (await desk.query(row["jobID"]))["state"] == "RUNNING"
    assert await desk.create("next") == row["jobID"] + 1
    await desk.good("UpdateJob", jobID=row["jobID"], data={"who": "bob"})
    assert (await desk.good("Query", query="select jobID, data from jobs where name = 'greet';")).body == [
        [row["jobID"], {"who": "bob"}]
    ]
    await desk.good("FinishJob", jobID=row["jobID"])
    assert await desk.state(row["jobID"]) == "gone"
    assert handle is not None


async def test_the_native_view(desk: AtDesk, json_api: Api) -> None:
    parent = await desk.running("parent", data={"a": 1}, jobPriority=1000)
    child = await desk.create("child", parentJobID=parent, retryAfter="+5 MINUTES", mockRequest="x")
    seen = await _native(desk, json_api, parent)
    assert {
        "queue": "bedrock", "name": "parent", "state": "running", "payload": {"a": 1}, "priority": -500,
        "lease_deadline_at_ms": None, "is_hidden": False, "attempt": 1,
    }.items() <= seen.items()  # fmt: skip
    kid = await _native(desk, json_api, child)
    assert {
        "state": "waiting", "is_held": True, "parent": seen["id"], "retake": True, "lease_rule": "+5 MINUTES",
        "lease_ms": 300_000, "is_hidden": False,
    }.items() <= kid.items()  # fmt: skip
    await desk.good("FinishJob", jobID=parent)
    assert (await _native(desk, json_api, parent))["state"] == "waiting"
    assert (await _native(desk, json_api, child))["state"] == "queued"


async def _native(desk: AtDesk, api: Api, number: int) -> dict[str, Any]:
    written = format_id(desk.service.numbered_id("bedrock", number))
    answered = await api.ask("GET", f"/api/v1/jobs/{written}")
    assert answered.status == 200, answered
    found: dict[str, Any] = answered.body
    return found.get("job", found)


async def test_payloads_of_other_kinds(desk: AtDesk) -> None:
    """What is no object has none of the server's keys; what has no form in JSON is shown as nothing."""
    for payload, shown in (
        (Blob(b"[1,2]"), [1, 2]),
        (Blob(b"null"), {}),
        (Blob(b"\x81\xa1a\x01", Codec.MSGPACK), {"a": 1}),
        (Blob(b"\xff", Codec.RAW), {}),
    ):
        await desk.service.enqueue([NewJob(queue="bedrock", name="n", payload=payload)])
        row = await desk.get("n")
        assert row["data"] == shown
        await desk.good("FinishJob", jobID=row["jobID"])


async def test_a_lease_from_elsewhere_does_not_run_out_here(desk: AtDesk) -> None:
    """Nobody extends leases in this dialect."""
    await desk.service.enqueue([NewJob(queue="bedrock", name="n", lease_ms=1_000)])
    row = await desk.get("n")
    desk.later(3_600)
    await desk.service.recover()
    assert await desk.state(row["jobID"]) == "RUNNING"


async def test_jobs_of_other_queues_and_of_the_history_are_not_there(desk: AtDesk) -> None:
    (other,) = await desk.service.enqueue([NewJob(queue="other", name="n")])
    (number,) = await desk.service.number([other.id])  # type: ignore[union-attr]
    assert (await desk("QueryJob", jobID=number)).line == "404 No job with this jobID"
    await desk.create("first")
    await desk.service.configure("bedrock", {"history_length": 10})
    done = await desk.running("done")
    await desk.good("FinishJob", jobID=done)
    assert await desk.state(done) == "gone"
    assert (await desk("RequeueJobs", jobIDs=done)).line == "200 OK"
    assert await desk.state(done) == "gone"
    assert await desk.create("done", unique=True) != done


async def _foreign(desk: AtDesk) -> tuple[Job, int]:
    """A running job of another queue that has a number, as one has that Bedrock's clients may guess."""
    await desk.service.enqueue([NewJob(queue="other", name="S3CRET", payload=Blob(b'{"x":"S3CRET"}'))])
    (job,) = (await desk.service.take(Take(queues=("other",)))).jobs
    (number,) = await desk.service.number([job.id])
    (found,) = await desk.service.job([job.id])
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
    desk: AtDesk, verb: str, given: dict[str, Any]
) -> None:
    """A token for this queue alone reaches it in no other way either."""
    before, number = await _foreign(desk)
    said = await desk(verb, data={"y": 1}, **{name: value or number for name, value in given.items()})
    assert said.line.startswith("404 ") or verb == "RequeueJobs"
    assert "S3CRET" not in said.text + said.line
    (after,) = await desk.service.job([before.id])
    assert isinstance(after, Timeline)
    assert after.job == before


async def test_no_list_of_jobs_reaches_a_parent_in_another_queue(desk: AtDesk) -> None:
    before, number = await _foreign(desk)
    jobs = [{"name": "alone"}, {"name": "child", "parentJobID": number}]
    assert (await desk("CreateJobs", jobs=jobs)).line == "404 parentJobID does not exist"
    assert not (await desk.service.list_members(before.id)).members


async def test_children_in_other_queues_are_not_shown(desk: AtDesk) -> None:
    """A parent that runs again gets the data of its children in this queue only."""
    parent = await desk.running("parent")
    parent_id = desk.service.numbered_id("bedrock", parent)
    await desk.service.enqueue([NewJob(queue="other", name="c", payload=Blob(b'{"x":"S3CRET"}'), parent=parent_id)])
    await desk.good("FinishJob", jobID=parent)
    (child,) = (await desk.service.take(Take(queues=("other",)))).jobs
    await desk.service.finish([Finish(child.id, child.lease_token)])
    assert "S3CRET" not in (await desk.good("GetJob", name="parent")).text


async def test_a_configured_queue_stays_so(desk: AtDesk) -> None:
    await desk.create()
    await desk.service.configure("bedrock", {"retention_ms": 5_000})
    other = AtDesk(desk.service)
    assert isinstance(other.desk, CommandRouter)
    await other.create()
    assert (await desk.service.configuration("bedrock")).retention_ms == 5_000


async def test_a_family_across_front_ends(desk: AtDesk) -> None:
    """A child enqueued elsewhere is shown here, and its outcome too."""
    parent = await desk.running("parent")
    parent_id = desk.service.numbered_id("bedrock", parent)
    (child,) = await desk.service.enqueue(
        [NewJob(queue="bedrock", name="child", payload=Blob(b'{"x":1}'), parent=parent_id, held=True)]
    )
    await desk.good("FinishJob", jobID=parent)
    taken = await desk.service.take(Take(queues=("bedrock",)))
    await desk.service.finish([Finish(taken.jobs[0].id, taken.jobs[0].lease_token)])
    again = await desk.get("parent")
    (number,) = await desk.service.number([child.id])  # type: ignore[union-attr]
    assert again["finishedChildJobs"] == [{"data": {"x": 1}, "jobID": number}]


async def test_every_refusal_and_state_has_a_name(desk: AtDesk) -> None:
    assert set(STATUS_LINES) == set(REFUSALS.values())
    assert set(STATES) == set(State)
    assert desk is not None
