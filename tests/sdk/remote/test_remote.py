"""An application that uses a server, with the same calls as on the engine; the worker uses the engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest

from windlass import Context, JobCancelled, JobFailed, Refusal, ResultGone, Windlass, flow, group
from windlass.core.errors import AlreadyEnded, BadInput, BadSetting, QueueFull, UnknownFilter, UnknownJob
from windlass.core.filters.saved_filter import SavedFilter
from windlass.core.ids import parse_id, short_id
from windlass.core.job import Blob, Codec, FlowRef, NewJob
from windlass.core.job_aliases import JobAliases
from windlass.core.limits.condition import Condition
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.operations import Listing
from windlass.core.scale import ScaleTarget
from windlass.core.scheduling.schedule import Schedule
from windlass.sdk.remote.store import RemoteStore
from windlass.service import Service

pytestmark = pytest.mark.anyio
UNKEPT = r"has ended, and nothing of it is kept.*keep_result"
NO_ID = "01890a5d-ac96-7000-8000-b5c1d0b7a3f2"


class Tasks(NamedTuple):
    app: Windlass
    add: Any
    report: Any
    fail: Any
    wait: Any
    echo: Any
    nothing: Any
    gates: dict[str, asyncio.Event]


def define(app: Windlass) -> Tasks:
    gates: dict[str, asyncio.Event] = {}

    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    @app.task
    async def report(ctx: Context, gate: str) -> str:
        while not gates[gate].is_set():
            ctx.progress(0.1)
            await asyncio.sleep(0.02)
        ctx.progress(1, 4, "first page")
        ctx.emit(b"\xff\x00")
        ctx.log.warning("page %d is long", 2)
        return "done"

    @app.task(retry=1)
    async def fail() -> None:
        raise ValueError("no such page")

    @app.task
    async def wait(gate: str) -> None:
        gates[f"{gate} began"].set()
        await gates[gate].wait()

    @app.task
    async def echo(data: bytes, at: datetime, more: dict[str, list[int]]) -> tuple[bytes, datetime, dict[str, Any]]:
        return data, at, more

    @app.task
    async def nothing() -> None: ...

    return Tasks(app, add, report, fail, wait, echo, nothing, gates)


@pytest.fixture
async def remote(served: str) -> AsyncIterator[Tasks]:
    app = Windlass(served)
    yield define(app)
    await app.aclose()


@pytest.fixture
async def direct(app: Windlass, working: Callable[..., Any]) -> AsyncIterator[Tasks]:
    """A worker on the engine runs the enqueued jobs."""
    tasks = define(app)
    async with working(app):
        yield tasks


# The same program, with an event loop and without one


async def test_results(remote: Tasks, direct: Tasks) -> None:
    handle = await remote.add.aenqueue(2, b=3)
    assert handle.status == "queued"
    assert await handle == 5
    assert (await handle.ainfo()).state.label == "finished"
    assert await handle.acancel() == "ended"
    assert "finished" in (await handle.aexplain()).summary
    again = remote.app.job(handle.id)
    assert await again == 5


async def test_results_without_an_event_loop(remote: Tasks, direct: Tasks) -> None:
    def program() -> None:
        handle = remote.add.enqueue(2, 3)
        assert handle.result(timeout=20) == 5
        assert (handle.state, handle.progress) == ("finished", 1.0)
        assert handle.cancel() == "ended"
        assert "finished" in handle.explain().summary
        assert handle.logs().lines == []
        assert remote.app.job(handle.id).result() == 5

    await asyncio.to_thread(program)


async def test_many(remote: Tasks, direct: Tasks, engine_service: Service) -> None:
    calls = [remote.add.call(number, 1) for number in range(1500)]
    handles = await remote.app.aenqueue_many(calls)
    assert len({handle.id for handle in handles}) == 1500
    assert [await handles[place] for place in (0, 999, 1000, 1499)] == [1, 1000, 1001, 1500]
    more = await asyncio.to_thread(remote.app.enqueue_many, calls[:3])
    assert [await item for item in more] == [1, 2, 3]


async def test_values_arrive_as_they_were_sent(remote: Tasks, direct: Tasks) -> None:
    at = datetime(2026, 3, 1, 12, 30, 15, 250_000, tzinfo=UTC)
    value = (bytes(range(256)), at, {"ü": [1, -(2**63)]})
    assert tuple(await (await remote.echo.aenqueue(*value))) == value


@pytest.mark.parametrize(
    "payload",
    [
        Blob(b'{"a": 1.10}', Codec.JSON),
        Blob(b"\xff\x01", Codec.RAW),
        Blob(b"\x91" * 150 + b"\x00", Codec.MSGPACK),  # deeper than a body may be nested
        Blob(b"\x91", Codec.MSGPACK),  # an incomplete document
    ],
)
async def test_payloads_are_stored_byte_for_byte(remote: Tasks, engine_service: Service, payload: Blob) -> None:
    there = await remote.app.aservice()
    made = await there.enqueue([NewJob(queue="q", name="n", payload=payload)]).one()
    assert (await engine_service.job([made.id]).one()).job.payload == payload


async def test_events_progress_and_logs(remote: Tasks, direct: Tasks) -> None:
    gate = direct.gates["events"] = asyncio.Event()
    handle = await remote.report.aenqueue("events")
    events = []
    async for event in handle.events():
        gate.set()  # the stream is open
        events.append(event)
    told = [(item.kind, item.progress, item.note, item.value) for item in events if item.progress >= 0.25]
    assert told == [
        ("progress", 0.25, "first page", None),
        ("emitted", 0.25, "", b"\xff\x00"),
        ("logged", 0.25, "", None),
        ("finished", 1.0, "", None),
    ]
    logs = await handle.alogs()
    assert [(line.level, line.text) for line in logs.lines] == [("warning", "page 2 is long")]
    assert [event.kind async for event in handle.events()] == ["snapshot", "finished"]


async def test_events_without_an_event_loop(remote: Tasks, direct: Tasks) -> None:
    gate, loop = asyncio.Event(), asyncio.get_running_loop()
    direct.gates["events"] = gate
    handle = await remote.report.aenqueue("events")

    def follow() -> list[str]:
        kinds = []
        for event in handle.events():
            loop.call_soon_threadsafe(gate.set)
            kinds.append(event.kind)
        return kinds

    assert (await asyncio.to_thread(follow))[-4:] == ["progress", "emitted", "logged", "finished"]
    kinds = await asyncio.to_thread(lambda: [event.kind for event in handle.events()])
    assert kinds == ["snapshot", "finished"]


async def test_cancel(remote: Tasks, direct: Tasks) -> None:
    began, gate = asyncio.Event(), asyncio.Event()
    direct.gates.update({"long began": began, "long": gate})
    running = await remote.wait.aenqueue("long")
    await asyncio.wait_for(began.wait(), 20)
    assert await running.acancel() == "requested"
    with pytest.raises(JobCancelled):
        await running
    waiting = await remote.add.using(delay="1h").aenqueue(1, 2)
    assert (await waiting.ainfo()).state.label == "scheduled"
    assert await asyncio.to_thread(waiting.cancel) == "cancelled"
    with pytest.raises(JobCancelled):
        await asyncio.to_thread(waiting.result)


async def test_a_failure_is_raised_with_what_went_wrong(remote: Tasks, direct: Tasks) -> None:
    with pytest.raises(JobFailed, match="no such page") as caught:
        await (await remote.fail.aenqueue())
    assert caught.value.type == "ValueError"


async def test_a_result_that_does_not_come(remote: Tasks) -> None:
    handle = await remote.add.aenqueue(1, 2)
    with pytest.raises(TimeoutError):
        await handle.aresult(timeout="10ms")
    with pytest.raises(TimeoutError):
        await asyncio.to_thread(handle.result, timeout=0.01)


async def test_what_is_not_there(remote: Tasks) -> None:
    unknown = remote.app.job(NO_ID)
    for ask in (unknown.aresult, unknown.ainfo, unknown.alogs, unknown.aexplain, unknown.acancel):
        with pytest.raises(UnknownJob):
            await ask()
    with pytest.raises(UnknownJob):
        _ = [event async for event in unknown.events()]


@pytest.mark.parametrize("is_remote", [True, False])
async def test_a_job_that_ended_and_was_not_kept_says_so(remote: Tasks, direct: Tasks, is_remote: bool) -> None:
    tasks = remote if is_remote else direct
    handle = await tasks.nothing.aenqueue()
    assert await handle is None
    found = tasks.app.job(handle.id)  # it does not know that the task returns nothing
    assert [await handle.astate(), await found.astate()] == ["ended", "ended"]
    assert await asyncio.to_thread(lambda: (handle.state, found.state)) == ("ended", "ended")
    assert await handle is None
    for result in (found.aresult(), asyncio.to_thread(found.result)):
        with pytest.raises(ResultGone, match=f"{handle.id} has ended, and its result is no longer stored.*keep_result"):
            await result
    for ask in (found.ainfo, found.alogs, found.aexplain):
        with pytest.raises(AlreadyEnded, match=UNKEPT):
            await ask()
    for ask_now in (found.info, found.logs, found.explain, lambda: found.progress):
        with pytest.raises(AlreadyEnded, match=UNKEPT):
            await asyncio.to_thread(ask_now)


async def test_flows(remote: Tasks, direct: Tasks) -> None:
    whole = await group(remote.add.call(number, number) for number in range(4)).aenqueue()
    assert await whole == [0, 2, 4, 6]
    assert await whole.aprogress() == 1.0
    chain = remote.add.call(1, 1).then(remote.add, 5)
    assert await asyncio.to_thread(lambda: chain.enqueue().result(20)) == 7
    broken = await remote.fail.call().and_then(remote.add.call(1, 2)).aenqueue()
    with pytest.raises(JobFailed, match="no such page"):
        await broken
    assert (await broken.aresume()).retried == [broken.steps[0].id_bytes]
    with pytest.raises(JobFailed, match="no such page"):
        await broken.aresult(20)


async def test_named_flows(remote: Tasks, direct: Tasks, engine_service: Service) -> None:
    made = flow("sums")
    one, two = made.step("one", remote.add.call(1, 1)), made.step("two", remote.add.call(2, 2))
    made.step("sum", remote.add, one, two)
    handle = await made.aenqueue()
    assert await handle.aresult(20) == {"sum": 6}
    (found,) = await engine_service.job([handle.steps["sum"].id_bytes])
    assert not isinstance(found, Refusal)
    assert found.job.flow == FlowRef(parse_id(handle.flow_id), "sums", "sum")
    assert (await handle.steps["sum"].ainfo()).flow == found.job.flow


async def test_a_flow_is_accepted_whole_or_not_at_all(remote: Tasks, engine_service: Service) -> None:
    await engine_service.configure("default", {"max_length": 2})
    with pytest.raises(QueueFull):
        await group(remote.add.call(number, 1) for number in range(3)).aenqueue()
    [stats] = await engine_service.stats(["default"])
    assert (stats.queued, stats.waiting) == (0, 0)


async def test_unique_and_refused(remote: Tasks, engine_service: Service) -> None:
    once = remote.add.using(unique="one")
    first, second = await once.aenqueue(1, 1), await once.aenqueue(1, 2)
    assert (second.id, second.status) == (first.id, "existing")
    await engine_service.configure("default", {"max_length": 1})
    with pytest.raises(QueueFull):
        await remote.add.aenqueue(1, 1)
    with pytest.raises(BadInput, match="priority"):
        await remote.add.using(priority=2**40).aenqueue(1, 1)


# The remote service


async def test_the_service_is_the_same_through_a_server(remote: Tasks, direct: Tasks) -> None:
    there, here = await remote.app.aservice(), await direct.app.aservice()
    later = remote.add.using(queue="a/b ?%", tags=("t",), delay="1h")
    handles = [await later.aenqueue(number, 0) for number in range(3)]
    ids = [item.id_bytes for item in handles]
    assert [_comparable_fields(item) for item in await there.job(ids)] == [
        _comparable_fields(item) for item in await here.job(ids)
    ]
    listing = Listing(queue="a/b ?%", state="scheduled", most=2)
    page, same = await there.jobs(listing), await here.jobs(listing)
    assert [job.id for job in page.jobs] == [job.id for job in same.jobs]
    assert page.cursor == same.cursor
    assert await there.configure("a/b ?%", {"aging_ms": 5, "max_length": None}) == await here.configuration("a/b ?%")
    assert (await there.configure("a/b ?%", {"index": ("a", "b.c")})).index == ("a", "b.c")
    assert await there.configuration("a/b ?%") == await here.configuration("a/b ?%")
    assert await there.configure("a/b ?%", {"index": ()}) == await here.configuration("a/b ?%")
    assert await there.stats(["a/b ?%"]) == await here.stats(["a/b ?%"])
    assert "a/b ?%" in await there.queues()
    goal = ScaleTarget(slots=2, target=3, target_age_ms=5, min=4, max=9)
    assert await there.scale("a/b ?%", goal) == await here.scale("a/b ?%", goal)
    assert (await there.scale("a/b ?%", goal)).workers == 4
    assert await there.pause("a/b ?%", reason="x") is True
    assert await there.pause("a/b ?%") is False
    assert [item.reason for item in await there.pauses("a/b ?%")] == [""]
    assert await there.resume("a/b ?%") is True
    assert abs(await there.now() - await here.now()) < 60_000
    assert [item.id for item in await there.workers()] == [item.id for item in await here.workers()]
    assert await there.delete(ids) == ["deleted"] * 3


async def test_jobs_are_found_by_payload_fields_through_a_server(remote: Tasks, direct: Tasks) -> None:
    there, here = await remote.app.aservice(), await direct.app.aservice()
    handles = [await remote.add.using(index=("a",), delay="1h").aenqueue(number, 0) for number in (1, 2)]
    for service in (there, here):
        page = await service.jobs(Listing(where=("a=2",)))
        assert [(job.id, job.index, job.indexed) for job in page.jobs] == [(handles[1].id_bytes, ("a",), ("a=2",))]
        with pytest.raises(BadInput, match="'b' is not indexed"):
            await service.jobs(Listing(where=("b=0",)))


def _comparable_fields(timeline: Any) -> dict[str, Any]:
    """Return the fields of a job without the two that only the engine has."""
    fields = {name: getattr(timeline.job, name) for name in timeline.job.__struct_fields__}
    return {name: value for name, value in fields.items() if name not in ("sequence", "limits")}


async def test_saved_filters_are_the_same_over_the_server(remote: Tasks, direct: Tasks) -> None:
    there, here = await remote.app.aservice(), await direct.app.aservice()
    late = SavedFilter(name="late/mail", page="jobs", fields={"state": "failed", "name": "send_*"})
    await there.save_filter(late)
    assert await there.filters() == await here.filters() == [late]
    renamed = SavedFilter(name="late", page="jobs", fields=late.fields)
    await there.save_filter(renamed, former="late/mail")
    assert await here.filters() == [renamed]
    await there.remove_filter("late")
    assert await here.filters() == []
    with pytest.raises(UnknownFilter, match="'late'"):
        await there.remove_filter("late")


async def test_limits_and_schedules_are_told_as_declared(remote: Tasks, direct: Tasks) -> None:
    there, here = await remote.app.aservice(), await direct.app.aservice()
    template = remote.add.call(1, 2).new_job()
    wanted = Schedule(name="nightly/ä", job=template, cron="0 3 * * *", timezone="Europe/Berlin")
    assert (await there.schedule(wanted)).schedule == wanted
    assert await there.schedules() == await here.schedules()
    await there.unschedule("nightly/ä")
    assert await here.schedules() == []
    matches = Matcher(queue="default", payload={"kind": Condition(in_=("x", 7)), "n": 1}, not_=Matcher(name="x"))
    limit = Limit(name="per/user", matches=matches, running=2, key="user")
    assert await there.limit(limit) == 0
    assert await there.limits() == await here.limits()
    assert [item.limit for item in await there.limits()] == [limit]
    await there.unlimit("per/user")
    assert await here.limits() == []


# Operations that are not available over HTTP


async def test_what_only_the_engine_offers_is_refused(remote: Tasks) -> None:
    with pytest.raises(BadSetting, match=r"uses the server at http://127.*redis://"):
        _ = remote.app.store
    service = await remote.app.aservice()
    for ask in (service.promote, service.recover, lambda: service.take_callbacks(most=1)):
        with pytest.raises(BadSetting, match="not available over HTTP"):
            await ask()


async def test_a_test_of_the_application_needs_no_server(remote: Tasks) -> None:
    async with remote.app.testing() as trial:
        handle = await remote.add.aenqueue(1, 2)
        await trial.arun_all()
        assert await handle == 3
    assert isinstance(remote.app.any_store, RemoteStore)


async def test_finds_jobs_by_any_name(remote: Tasks, engine_service: Service) -> None:
    uuid = "6e2c1f9e-8f0e-4c55-9a2b-6b1f6f6f0001"
    payload = Blob(b'{"uuid": "%s"}' % uuid.encode())
    made = await engine_service.enqueue([NewJob(queue=queue, name="n", unique=uuid, payload=payload) for queue in "ab"])
    ids = [answer.id for answer in made]  # type: ignore[union-attr]
    number = await engine_service.number(ids[:1]).one()
    service = await remote.app.aservice()
    found = await service.find(uuid)
    assert ({job.id for job in found.jobs}, found.is_complete) == (set(ids), True)
    assert [job.id for job in (await service.find(uuid, queue="b")).jobs] == ids[1:]
    assert [job.id for job in (await asyncio.to_thread(remote.app.service.find(str(number)).wait)).jobs] == ids[:1]
    assert await service.aliases(found.jobs[:1]).one() == JobAliases(processor_uuid=uuid)
    with pytest.raises(BadInput):
        await service.find("")


async def test_finds_jobs_and_flows_by_a_part_of_their_id(remote: Tasks, engine_service: Service) -> None:
    made = await engine_service.enqueue([NewJob(queue="a", name="n") for _ in range(3)])
    job_id = made[0].id  # type: ignore[union-attr]
    flow_ref = FlowRef(bytes(range(16)), "shop")
    await engine_service.enqueue([NewJob(queue="a", name="n", flow=flow_ref)], whole=True)
    service = await remote.app.aservice()
    for alias in (short_id(job_id), f"…{short_id(job_id)}"):
        found = await service.find(alias)
        assert ([job.id for job in found.jobs], found.looked_at, found.is_complete) == ([job_id], 4, True)
    found = await service.find("00ffee")
    assert (found.jobs, found.looked_at, found.is_complete) == ([], 4, True)
    assert [flow.id for flow in (await service.flows(alias="…0d0e0f")).flows] == [flow_ref.id]
    assert (await service.flows(alias="…0d0e0e")).flows == []


async def test_the_newest_jobs_of_all_states_and_texts_of_payloads(remote: Tasks, engine_service: Service) -> None:
    payloads = (Blob(b'"Athens"'), Blob(b'"Rome"'))
    await engine_service.enqueue([NewJob(queue="a", name="n", payload=payload) for payload in payloads])
    service = await remote.app.aservice()
    for listing in (
        Listing(state="all", newest_first=True),
        Listing(state="all", text="athens"),
        Listing(state="all", most=1),
    ):
        page, same = await service.jobs(listing), await engine_service.jobs(listing)
        assert [job.id for job in page.jobs] == [job.id for job in same.jobs]
        assert (page.cursor, page.looked_at, page.is_complete) == (same.cursor, same.looked_at, True)
        assert len(page.jobs) == (2 if listing.newest_first else 1)
