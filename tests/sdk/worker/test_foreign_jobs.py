"""Jobs that other dialects made, run by SDK workers: the task's timeout and retries apply where a job has none."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import msgspec
import pytest

from tests.sdk.apps import process_app
from tests.support.engine_process import EngineProcess
from windlass import Backoff, Context, Windlass
from windlass.core.ids import parse_id
from windlass.core.job import Job, NewJob, Timeline
from windlass.core.job_template import PreparedJob
from windlass.core.operations import Take
from windlass.core.retry import ENDLESS
from windlass.core.states import State
from windlass.dialects.bedrock.commands.create_parameters import prepare_job, read_create_parameters
from windlass.dialects.bedrock.parameters import Parameters
from windlass.dialects.jobber import JobberJob
from windlass.dialects.stdio import jobs as processor

pytestmark = pytest.mark.anyio
TRIES = Backoff(tries=2, base="10ms", jitter=0)
QUEUES = {"jobber": "job_queue_work", "processor": "work", "bedrock": "bedrock"}
MakeJob = Callable[..., NewJob]


def jobber_job(**fields: Any) -> NewJob:
    return msgspec.convert({"type": "work", **fields}, JobberJob).new_job()


def processor_job(attempts: int = 0, **_: Any) -> NewJob:
    fields = {"uuid": "0198c0de-0000-7000-8000-000000000002", "queue_name": "work", "command": "work"}
    return processor.new_job(msgspec.json.encode(fields), fields, keep_ms=60_000, attempts=attempts)


def bedrock_job(**fields: str) -> NewJob:
    given = Parameters({"name": "work", **{name.lower(): value for name, value in fields.items()}})
    prepared: PreparedJob = prepare_job(read_create_parameters(given, 1_000))
    return prepared.new_job()


MAKERS: dict[str, MakeJob] = {"jobber": jobber_job, "processor": processor_job, "bedrock": bedrock_job}
dialects = pytest.mark.parametrize("dialect", MAKERS)


async def enqueue(app: Windlass, job: NewJob) -> bytes:
    return (await (await app.aservice()).enqueue([job]).one()).id


async def end_of(app: Windlass, job_id: bytes) -> Timeline:
    service = await app.aservice()
    assert await service.result(job_id, wait_ms=30_000) is not None, "it has not ended"
    return await service.job([job_id]).one()


def summary(timeline: Timeline) -> tuple[State, list[str]]:
    return timeline.job.state, [attempt.reason for attempt in timeline.attempts]


@dialects
@pytest.mark.parametrize("pool", ["async", "thread"])
async def test_a_job_that_hangs_times_out_is_retried_and_fails(
    app: Windlass, working: Any, dialect: str, pool: str
) -> None:
    started: list[int] = []
    options: Any = {"name": "work", "queue": QUEUES[dialect], "timeout": "300ms", "retry": TRIES, "grace": "1s"}

    async def hang(ctx: Context, **fields: Any) -> None:
        started.append(ctx.attempt)
        await asyncio.sleep(60)

    def hang_in_thread(ctx: Context, **fields: Any) -> None:
        started.append(ctx.attempt)
        while True:
            time.sleep(0.01)

    app.task(**options)(hang if pool == "async" else hang_in_thread)
    async with working(app):
        timeline = await end_of(app, await enqueue(app, MAKERS[dialect]()))
    assert summary(timeline) == (State.FAILED, ["timeout", "timeout"])
    assert started == [1, 2]
    assert timeline.job.timeout_ms == 0, "only the worker knows the task's policy"
    assert timeline.job.retry == ENDLESS


@dialects
async def test_a_job_that_raises_is_retried_with_the_tasks_pauses_and_fails(
    app: Windlass, working: Any, dialect: str
) -> None:
    started_at: list[float] = []

    @app.task(name="work", queue=QUEUES[dialect], retry=Backoff(tries=3, base="200ms", factor=2, jitter=0))
    async def work(**fields: Any) -> None:
        started_at.append(time.monotonic())
        raise ValueError("no")

    async with working(app):
        timeline = await end_of(app, await enqueue(app, MAKERS[dialect]()))
    assert summary(timeline) == (State.FAILED, ["error"] * 3)
    first, second, third = started_at
    assert second - first >= 0.2
    assert third - second >= 0.4


@pytest.fixture
def children(engine: EngineProcess, monkeypatch: pytest.MonkeyPatch) -> Iterator[Windlass]:
    monkeypatch.setenv("WINDLASS_URL", engine.unix_url)
    monkeypatch.setenv("WINDLASS_NAMESPACE", f"foreign-{os.urandom(4).hex()}")
    yield process_app.app
    process_app.app.close()


@pytest.mark.parametrize(("name", "reasons"), [("slow", ["timeout"]), ("crash", ["crashed", "crashed"])])
async def test_in_child_processes(children: Windlass, working: Any, name: str, reasons: list[str]) -> None:
    async with working(children, concurrency=1):
        job_id = await enqueue(children, jobber_job(type=name, queue="default"))
        assert summary(await end_of(children, job_id)) == (State.FAILED, reasons)


async def test_through_jobbers_own_route(app: Windlass, working: Any, served: str) -> None:
    @app.task(name="work", queue="job_queue_work", retry=TRIES)
    async def work() -> None:
        raise ValueError("no")

    async with working(app), httpx.AsyncClient(base_url=served) as client:
        answer = await client.post("/jobber/queue", json={"type": "work", "payload": {}})
        job_id = parse_id(answer.json()["job-id"])
        assert summary(await end_of(app, job_id)) == (State.FAILED, ["error", "error"])
        status = (await client.get(f"/jobber/queue/{answer.json()['job-id']}")).json()
    assert (status["state"], status["attempts"], status["error"]["reason"]) == ("failed", 2, "error")
    assert status["error"]["value"]["message"] == "no"


# What a creator gave explicitly


@pytest.mark.parametrize(
    ("dialect", "fields"),
    [("jobber", {"max_attempts": 3}), ("processor", {"attempts": 3})],
)
async def test_a_given_number_of_attempts_stays(
    app: Windlass, working: Any, dialect: str, fields: dict[str, Any]
) -> None:
    @app.task(name="work", queue=QUEUES[dialect], retry=1)
    async def work(**fields: Any) -> None:
        raise ValueError("no")

    job = msgspec.structs.replace(MAKERS[dialect](**fields), retry=Backoff(tries=3, base=0))
    async with working(app):
        assert summary(await end_of(app, await enqueue(app, job))) == (State.FAILED, ["error"] * 3)


async def test_a_bedrock_job_with_retry_after_has_a_policy_and_gets_the_timeout(app: Windlass, working: Any) -> None:
    """Its deliveries are limited by Bedrock, so only the timeout is the task's."""
    seen: list[Job] = []

    @app.task(name="work", queue="bedrock", timeout="300ms", retry=1)
    async def work(ctx: Context, **fields: Any) -> None:
        seen.append(ctx.job)
        if ctx.attempt == 1:
            await asyncio.sleep(60)

    job = bedrock_job(retryAfter="+1 HOUR")
    async with working(app):
        service = await app.aservice()
        await service.configure("bedrock", {"history_length": 1})
        timeline = await end_of(app, await enqueue(app, job))
    assert summary(timeline) == (State.FINISHED, ["timeout"])
    assert {job.retry.tries for job in seen} == {job.retry.tries} == {10}
    assert {job.timeout_ms for job in seen} == {300}


async def test_each_run_of_a_repeating_job_has_all_tries(app: Windlass, working: Any) -> None:
    runs: list[int] = []

    @app.task(name="work", queue="bedrock", retry=TRIES)
    async def work(ctx: Context, **fields: Any) -> None:
        runs.append(ctx.attempt)
        if ctx.attempt == 1 or len(runs) > 5:
            raise ValueError("no")

    async with working(app):
        job_id = await enqueue(app, bedrock_job(repeat="FINISHED, +0 SECONDS"))
        timeline = await end_of(app, job_id)
    assert runs == [1, 2, 1, 2, 1, 2]
    assert (timeline.job.state, timeline.job.attempt) == (State.FAILED, 2)


async def test_leases_that_expired_count(app: Windlass, working: Any) -> None:
    """The worker of two attempts died. The next take recovers the job, and the report sees the third attempt."""

    @app.task(name="work", queue="work", retry=3)
    async def work(**fields: Any) -> None:
        raise ValueError("no")

    job_id = await enqueue(app, processor_job())
    service = await app.aservice()
    for _ in range(2):
        (job,) = (await service.take(Take(queues=("work",), worker=b"d" * 16, lease_ms=1, wait_ms=10_000))).jobs
        assert job.id == job_id
    async with working(app):
        assert summary(await end_of(app, job_id)) == (State.FAILED, ["lease_expired", "lease_expired", "error"])


# Jobs of the SDK


async def test_calls_that_choose_no_timeout_and_endless_tries_keep_them(app: Windlass, working: Any) -> None:
    attempts: list[int] = []

    @app.task(timeout="200ms", retry=Backoff(tries=1, base=0))
    async def slow(ctx: Context) -> int:
        attempts.append(ctx.attempt)
        if ctx.attempt < 3:
            ctx.retry(delay=0)
        await asyncio.sleep(0.5)
        return ctx.attempt

    async with working(app):
        for endless in (0, Backoff(tries=0)):
            attempts.clear()
            assert await (await slow.using(timeout=None, retry=endless).aenqueue()) == 3
            assert await (await slow.using(timeout=0).call().using(retry=endless).aenqueue()) == 3
            assert attempts == [1, 2, 3] * 2


async def test_a_task_without_a_policy_gives_none(app: Windlass, working: Any) -> None:
    @app.task(name="work", queue="work", timeout=None, retry=0)
    async def work(ctx: Context, **fields: Any) -> None:
        if ctx.attempt < 5:
            ctx.retry(delay=0)

    job = processor_job()
    assert work.call().new_job().timeout_ms == 0
    assert work.call().new_job().retry == ENDLESS
    async with working(app):
        timeline = await end_of(app, await enqueue(app, job))
    assert (timeline.job.state, timeline.job.attempt) == (State.FINISHED, 5)


def test_a_job_with_a_policy_is_not_changed(app: Windlass) -> None:
    @app.task(timeout=None)
    async def plain() -> None: ...

    @app.task
    async def limited() -> None: ...

    for task in (plain, limited):
        task.enqueue()
        (job,) = app.service.take(Take(queues=("default",))).wait().jobs
        before = msgspec.structs.replace(job)
        task.complete_policy(job)
        assert job == before
