"""Steps, sleeps and signals through a server: the same calls and answers as on the engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.sdk.apps import durable_app
from tests.support.worker_process import JobNotes, wait_until, worker_starter
from windlass import Backoff, Context, SyncContext, Windlass
from windlass.core.durable import (
    DurableState,
    ReceiveSignal,
    Rewind,
    Signal,
    StepKind,
    StepStatus,
    StoreStep,
    Suspend,
    Wait,
)
from windlass.core.errors import AlreadyEnded, BadInput, Refusal, StaleLease, UnknownJob, UnknownStep, WrongState
from windlass.core.job import Blob, Codec, Job, NewJob
from windlass.core.operations import ANY_JOB, ANY_JOB_WITH_STEPS, Fail, LeaseRef, Take
from windlass.service import Service
from windlass.store.store import Store

pytestmark = pytest.mark.anyio
NO_JOB = bytes.fromhex("01890a5dac9670008000b5c1d0b7a3f2")
HOUR_MS = 3_600_000


@pytest.fixture
async def remote_app(served: str) -> AsyncIterator[Windlass]:
    app = Windlass(served)
    yield app
    await app.aclose()


@pytest.fixture
async def remote(remote_app: Windlass) -> Service:
    return await remote_app.aservice()


def packed(value: Any) -> Blob:
    return Blob(msgspec.msgpack.encode(value), Codec.MSGPACK)


async def start(service: Service) -> Job:
    await service.enqueue([NewJob(queue="q", name="n")])
    [job] = (await service.take(Take(queues=("q",), wants=ANY_JOB_WITH_STEPS))).jobs
    return job


def step(job: Job, name: str = "charge", **more: Any) -> StoreStep:
    return StoreStep(id=job.id, token=job.lease_token, name=name, **more)


def suspend(job: Job, *waits: Wait) -> Suspend:
    return Suspend(id=job.id, token=job.lease_token, waits=waits)


async def state_of(service: Service, job: Job) -> DurableState:
    found = await service.durable_states([job.id]).one()
    return msgspec.structs.replace(found, now_ms=0)


async def test_durable_state_is_read_as_on_the_engine(remote: Service, engine_service: Service) -> None:
    job = await start(remote)
    steps = [
        step(job, "none"),
        step(job, "msgpack", value=packed({"a": [1, b"x", None]}), ran_ms=7, lease_ms=60_000),
        step(job, "raw", value=Blob(b"\xff\x00", Codec.RAW)),
        step(job, "failed", status=StepStatus.FAILED, value=packed("why"), tries=3),
        step(job, "rows", kind=StepKind.CURSOR, status=StepStatus.WAITING, value=packed(10)),
    ]
    assert await remote.store_steps(steps) == [None] * 5
    child = (await remote.enqueue([NewJob(queue="q", name="child", parent=job.id)]).one()).id
    assert await remote.signal([Signal(id=job.id, name="early", value=packed(1))]).one() == "kept"
    waits = (
        Wait(name="nap", kind="sleep", for_ms=HOUR_MS),
        Wait(name="approval", kind="signal", signal="approval", schema=packed({"type": "boolean"})),
        Wait(name="gather", kind="children", children=(child,), needs_all=True, for_ms=HOUR_MS),
        Wait(name="again", kind="retry", for_ms=HOUR_MS, tries=2, error=packed("away")),
    )
    assert await remote.suspend([suspend(job, *waits)]).one() == "suspended"
    found = await state_of(remote, job)
    assert found == await state_of(engine_service, job)
    assert ([one.name for one in found.steps[-4:]], found.waits[0]) == (["nap", "approval", "gather", "again"], "nap")
    open_waits = await remote.open_waits([job.id]).one()
    assert open_waits.steps == (await engine_service.open_waits([job.id]).one()).steps
    assert open_waits.suspended_at_ms == found.suspended_at_ms
    [timeline] = await remote.job([job.id])
    assert not isinstance(timeline, Refusal)
    assert (timeline.job.state.label, timeline.job.is_durable) == ("suspended", True)


async def test_a_signal_is_received_once(remote: Service) -> None:
    job = await start(remote)
    receive = ReceiveSignal(id=job.id, token=job.lease_token, name="wait", signal="approval")
    assert await remote.receive_signals([receive]).one() is None
    request = Signal(id=job.id, name="approval", value=packed("yes"), request_id=b"r" * 16)
    assert [await remote.signal([request]).one() for _ in range(2)] == ["kept", "repeated"]
    for _ in range(2):
        found = await remote.receive_signals([receive]).one()
        assert found is not None
        assert (found.name, found.signal, found.value) == ("wait", "approval", packed("yes"))


async def test_two_signals_without_a_request_id_are_two(remote: Service) -> None:
    job = await start(remote)
    request = Signal(id=job.id, name="approval", value=packed(1))
    assert [await remote.signal([request]).one() for _ in range(2)] == ["kept", "kept"]


async def test_jobs_with_steps_need_a_taker_that_knows_them(remote: Service) -> None:
    job = await start(remote)
    await remote.store_steps([step(job)]).one()
    await remote.release([LeaseRef(job.id, job.lease_token)]).one()
    for wants, expected in ((ANY_JOB, []), (ANY_JOB_WITH_STEPS, [job.id])):
        taken = await remote.take(Take(queues=("q",), wants=wants))
        assert [found.id for found in taken.jobs] == expected


async def test_rewind_and_a_fresh_retry(remote: Service) -> None:
    job = await start(remote)
    await remote.store_steps([step(job, name) for name in "abc"])
    with pytest.raises(WrongState):
        await remote.rewind([Rewind(id=job.id)]).one()
    await remote.fail([Fail(id=job.id, token=job.lease_token, then="final")]).one()
    with pytest.raises(UnknownStep):
        await remote.rewind([Rewind(id=job.id, step="z")]).one()
    assert await remote.rewind([Rewind(id=job.id, step="b")]).one() == 2
    assert await remote.retry([job.id], fresh=True).one() == "queued"
    assert (await remote.durable_states([job.id]).one()).steps == ()


async def test_refusals_are_the_same(remote: Service) -> None:
    job = await start(remote)
    stale = msgspec.structs.replace(job, lease_token=job.lease_token + 1)
    with pytest.raises(StaleLease):
        await remote.store_steps([step(stale)]).one()
    with pytest.raises(StaleLease):
        await remote.suspend([suspend(stale, Wait(name="nap", kind="sleep", for_ms=1))]).one()
    with pytest.raises(BadInput):
        remote.suspend([suspend(job)])
    answers = [*(await remote.durable_states([NO_JOB])), *(await remote.open_waits([NO_JOB]))]
    assert [type(answer) for answer in answers] == [UnknownJob, UnknownJob]
    await remote.fail([Fail(id=job.id, token=job.lease_token, then="final")]).one()
    with pytest.raises(AlreadyEnded):
        await remote.signal([Signal(id=job.id, name="a", value=packed(1))]).one()


async def test_a_signal_link_has_the_address_of_the_server(
    remote: Service, engine_service: Service, served: str
) -> None:
    job = await start(remote)
    made = await remote.signal_link(job.id, "approval", expires_in_ms=HOUR_MS)
    assert made.url == f"{served}/signals/{made.token}"
    link = await engine_service.read_signal_link(made.token)
    assert link is not None
    assert (link.job_id, link.signal, link.expires_at_ms) == (job.id, "approval", made.expires_at_ms)


# Workers


def define(app: Windlass, ran: list[str]) -> Any:
    async def charge(order: int) -> dict[str, int]:
        ran.append("charge")
        return {"receipt": order}

    async def ship() -> None:
        ran.append("ship")
        if ran.count("ship") == 1:
            raise ConnectionError("away")

    @app.task
    async def label(number: int) -> str:
        return f"label {number}"

    @app.task(retry=Backoff(tries=3, base=0))
    async def fulfil(ctx: Context, order: int) -> list[Any]:
        ran.append("run")
        receipt = await ctx.step("charge", charge, order)
        await ctx.sleep("2100ms")
        answer = await ctx.wait_for("approval", str, timeout="1h")
        labels = await ctx.gather(label.call(number) for number in range(2))
        await ctx.step("ship", ship)
        return [receipt, answer, labels, ctx.attempt]

    return fulfil


async def test_a_worker_over_http_runs_durable_tasks(
    app: Windlass, remote_app: Windlass, working: Callable[..., Any]
) -> None:
    ran: list[str] = []
    define(remote_app, ran)
    fulfil = define(app, [])
    async with working(remote_app):
        handle = await fulfil.aenqueue(7)
        await remote_app.job(handle.id).asignal("approval", "yes")
        result = await handle
    assert result == [{"receipt": 7}, "yes", ["label 0", "label 1"], 2]
    assert (ran.count("charge"), ran.count("ship")) == (1, 2)
    await app.aclose()


async def test_sync_tasks_in_threads_over_http(remote_app: Windlass, working: Callable[..., Any]) -> None:
    ran: list[str] = []

    @remote_app.task(retry=Backoff(tries=2, base=0))
    def fulfil(ctx: SyncContext) -> list[Any]:
        ctx.step("charge", ran.append, "charge")
        answer = ctx.wait_for("approval", str)
        if ctx.attempt == 1:
            raise ValueError("again")
        return [answer, ctx.attempt]

    async with working(remote_app):
        handle = await fulfil.aenqueue()
        await handle.asignal("approval", "yes")
        assert (await handle, ran) == (["yes", 2], ["charge"])


@pytest.mark.parametrize("name", ["in_process", "in_thread"])
def test_a_killed_worker_over_http_repeats_no_stored_step(
    served: str, store: Store, place: JobNotes, name: str
) -> None:
    durable_app.app.connect(store)
    apps = Path(durable_app.__file__).parent
    with worker_starter("durable_app:app", served, store.namespace, apps) as workers:
        handle = getattr(durable_app, name).enqueue(place.path)
        first = workers.start("--no-supervisor")
        wait_until(lambda: words(place).count("waits") == 1, "the first worker runs the third step")
        first.kill()
        workers.start()
        wait_until(lambda: words(place).count("waits") == 2, "another worker runs the third step again")
        place.go()
        handle.signal("approval", "yes")
        assert handle.result(60) == ["first", "second", "yes", 2]
    assert words(place) == ["first", "second", "waits", "waits"]


def words(place: JobNotes) -> list[str]:
    return [word for word, _, _ in place.notes()]
