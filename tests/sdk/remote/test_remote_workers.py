"""Workers that use a server, together with programs on the engine."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.sdk.apps import fault_tasks
from tests.support.namespace import send_command
from tests.support.worker_process import JobNotes, WorkerProcess, list_workers, wait_until
from windlass import Context, JobCancelled, Limit, Windlass, Worker, __version__
from windlass.core.access.tokens import NewToken, Role
from windlass.core.errors import BadInput, Unauthorized
from windlass.core.operations import WorkerInfo
from windlass.sdk.remote.workers import _register
from windlass.service import Service
from windlass.wire.workers import ExpectedShape, WorkerShape

pytestmark = pytest.mark.anyio


@pytest.fixture
async def remote(served: str) -> AsyncIterator[Windlass]:
    app = Windlass(served)
    yield app
    await app.aclose()


async def test_a_worker_over_http_does_what_is_enqueued_on_the_engine(
    app: Windlass, remote: Windlass, working: Callable[..., Any], engine_service: Service
) -> None:
    def define(app: Windlass) -> Any:
        @app.task
        async def half(ctx: Context, number: int) -> float:
            ctx.progress(0.5, note="half way")
            ctx.log.info("halving")
            return number / 2

        return half

    define(remote)
    half = define(app)
    async with working(remote) as worker:
        handles = await app.aenqueue_many(half.call(number) for number in range(200))
        assert [await handle for handle in handles] == [number / 2 for number in range(200)]
        assert [line.text for line in (await handles[0].alogs()).lines] == ["halving"]
        [known] = await engine_service.workers()
        assert (known.id, known.info.queues) == (worker.id, ("default",))
        assert (known.info.version, known.info.memory_bytes > 0) == (__version__, True)
    assert await engine_service.workers() == []
    await app.aclose()


def test_registers_at_a_server_that_does_not_know_the_fields_about_the_process() -> None:
    info = WorkerInfo(name="w", slots=3, version="1.2", python="3.13.1", memory_bytes=7)
    operation = _register(b"w" * 16, info, 5_000)
    assert next(operation).body == WorkerShape(
        name="w", slots=3, version="1.2", python="3.13.1", memory_bytes=7, beat_ms=5_000
    )
    second = operation.throw(BadInput("Object contains unknown field `version`"))
    assert second.body == WorkerShape(name="w", slots=3, beat_ms=5_000)
    with pytest.raises(StopIteration):
        operation.send(ExpectedShape(now_ms=1, silent_at_ms=2))


async def test_children_over_http(app: Windlass, remote: Windlass, working: Callable[..., Any]) -> None:
    def define(app: Windlass) -> Any:
        @app.task
        async def part(number: int) -> int:
            return number

        @app.task
        async def whole(ctx: Context) -> int:
            if not ctx.is_resumed:
                await ctx.aspawn_many(part.call(number) for number in (1, 2, 3))
                return 0
            return sum(child.result for child in ctx.children)

        return whole

    define(remote)
    async with working(remote):
        assert await (await define(app).aenqueue()) == 6
    await app.aclose()


async def test_a_worker_waits_without_polling(
    app: Windlass,
    remote: Windlass,
    working: Callable[..., Any],
    engine_service: Service,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The waiting request returns the job."""
    caplog.set_level(logging.INFO, "windlass.access")

    def define(app: Windlass) -> Any:
        @app.task
        async def answered() -> int:
            return sum(record.getMessage().count('"path":"/api/v1/take"') for record in caplog.records)

        return answered

    define(remote)
    async with working(remote, concurrency=1):
        while (await engine_service.stats(["default"]))[0].waiting_takers < 1:  # noqa: ASYNC110 (of the engine)
            await asyncio.sleep(0.01)
        for _ in range(3):  # for some iterations of the event loop
            await asyncio.sleep(0.1)
        assert await (await define(app).aenqueue()) <= 1
    await app.aclose()


async def test_a_running_job_is_asked_to_stop(app: Windlass, remote: Windlass, working: Callable[..., Any]) -> None:
    began = asyncio.Event()

    def define(app: Windlass) -> Any:
        @app.task(lease="1s")
        async def endless() -> None:
            began.set()
            await asyncio.Event().wait()

        return endless

    define(remote)
    async with working(remote):
        handle = await define(app).aenqueue()
        await asyncio.wait_for(began.wait(), 20)
        assert await handle.acancel() == "requested"
        with pytest.raises(JobCancelled):
            await asyncio.wait_for(handle.aresult(), 20)
    await app.aclose()


# Real processes


@pytest.fixture
def start(served: str) -> Iterator[Callable[..., WorkerProcess]]:
    started: list[WorkerProcess] = []

    def start(*arguments: str, **environment: str) -> WorkerProcess:
        process = WorkerProcess(
            "fault_tasks:app",
            "--url",
            served,
            *arguments,
            directory=Path(__file__).parents[1] / "apps",
            environment=environment,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.remove()


async def test_the_job_of_a_killed_worker_comes_back_with_its_connection(
    start: Callable[..., WorkerProcess], connected: Service, place: JobNotes
) -> None:
    """The lease is long and no parent is left, so only the server can have freed the job."""
    handle = await asyncio.to_thread(fault_tasks.held_long.enqueue, place.path, 1)
    first = await asyncio.to_thread(start("--no-supervisor").wait_ready)
    await asyncio.to_thread(wait_until, lambda: place.started() == [1], "the job runs")
    second = await asyncio.to_thread(start().wait_ready)
    first.kill()
    await asyncio.to_thread(wait_until, lambda: place.started() == [1, 1], "the job runs again")
    assert [attempt.reason for attempt in (await handle.ainfo()).attempts] == ["crashed"]
    place.go()
    assert await asyncio.to_thread(handle.result, 20) == 1
    assert [item.info.pid for item in list_workers(connected)] != [first.pid]
    assert second.stop() == 0
    assert "Windlass server" in second.output


async def test_a_worker_that_is_registered_again_is_connected_again(
    app: Windlass, remote: Windlass, working: Callable[..., Any], engine_service: Service
) -> None:
    """The engine has forgotten the worker, and its connection with it."""

    async def connection_of(worker: Worker) -> bytes:
        store = engine_service.store
        found: Any = None
        async with asyncio.timeout(20):
            while found is None:
                await asyncio.sleep(0.01)
                found = await asyncio.to_thread(
                    send_command, store, "HGET", f"{store.root(0)}:w:".encode() + worker.id, "connection"
                )
        return bytes(found)

    async with working(remote) as worker:
        first = await connection_of(worker)
        await engine_service.forget(worker.id)
        assert await connection_of(worker) != first
    await app.aclose()


async def test_processes_and_children_of_a_worker_over_http(
    start: Callable[..., WorkerProcess], connected: Service, place: JobNotes
) -> None:
    handles = await asyncio.to_thread(
        lambda: [fault_tasks.in_process.enqueue(place.path, number) for number in range(4)]
    )
    worker = await asyncio.to_thread(start("--processes", "2", "--concurrency", "2").wait_ready)
    place.go()
    assert [await asyncio.to_thread(item.result, 30) for item in handles] == [0, 1, 2, 3]
    assert await asyncio.to_thread(worker.stop) == 0


# Tokens


async def _token(engine_service: Service, *roles: Role) -> str:
    made = await engine_service.create_token(NewToken(name="-".join(roles), roles=frozenset(roles)))
    return made.text


async def test_a_token_for_work_is_enough(
    served: str, app: Windlass, working: Callable[..., Any], engine_service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    """The worker logs that it may not declare limits and configure queues, and runs."""

    def define(app: Windlass) -> Any:
        @app.task(limits=[Limit(running=1)])
        async def add(a: int, b: int) -> int:
            return a + b

        return add

    remote = Windlass(served, token=await _token(engine_service, Role.WORK))
    define(remote)
    async with working(remote):
        assert await (await define(app).aenqueue(1, 2)) == 3
    assert "Could not apply the limits, schedules and queue properties" in caplog.text
    await app.aclose()


async def test_a_worker_with_a_wrong_token_does_not_start(served: str, engine_service: Service) -> None:
    token = await _token(engine_service, Role.WORK)
    remote = Windlass(served, token=token[:-4] + "xxxx")
    with pytest.raises(Unauthorized):
        await Worker(remote).run()
    await remote.aclose()


async def test_figures_of_tasks_over_http(
    remote: Windlass, served: str, working: Callable[..., Any], engine_service: Service
) -> None:
    @remote.task(queue="mail")
    async def ping(number: int) -> int:
        return number

    async with working(remote):
        for handle in await remote.aenqueue_many(ping.call(number) for number in range(5)):
            await handle
    over_http, direct = Windlass(served), engine_service
    service = await over_http.aservice()
    found = await service.task("ping")
    assert found.figures.finished == 5
    assert msgspec.structs.replace(found, at_ms=0) == msgspec.structs.replace(await direct.task("ping"), at_ms=0)
    assert await service.tasks() == await direct.tasks()
    await over_http.aclose()
