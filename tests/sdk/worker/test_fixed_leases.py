"""Workers at a queue that does not renew leases: live but slow code loses its job, is stopped, and another worker runs
the job."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sdk.apps import process_app
from tests.support.engine_process import EngineProcess
from windlass import Windlass, Worker
from windlass.core.job import Job, NewJob
from windlass.core.operations import Take
from windlass.core.states import State
from windlass.service import Service

pytestmark = pytest.mark.anyio
QUEUE = "job_queue_mail"
LEASE_MS = 600


async def enqueue(service: Service, **fields: Any) -> bytes:
    """Enqueue a job as the Jobber dialect does."""
    job = NewJob(**{"queue": QUEUE, "name": "mail", "lease_ms": LEASE_MS, **fields})
    return (await service.enqueue([job]).one()).id


async def take_again(service: Service, queue: str = QUEUE) -> Any:
    """Take the job as another worker. The slow worker may be faster and take its job again, and lose it again."""
    (job,) = (await service.take(Take(queues=(queue,), worker=b"x" * 16, lease_ms=60_000, wait_ms=30_000))).jobs
    return job


async def until(is_so: Callable[[], Any]) -> None:
    async with asyncio.timeout(30):
        while not is_so():  # noqa: ASYNC110 (a condition of another thread or process)
            await asyncio.sleep(0.01)


async def until_finished(service: Service, job_id: bytes) -> Job:
    async with asyncio.timeout(30):
        while (job := (await service.job([job_id]).one()).job).state is not State.FINISHED:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return job


def line_about(caplog: pytest.LogCaptureFixture, job_id: str) -> str:
    lines = [record.getMessage() for record in caplog.records if "within its lease" in record.getMessage()]
    assert set(lines) == {lines[0]}
    assert lines[0].startswith((f"mail {job_id[-6:]} was not", f"hold {job_id[-6:]} was not"))
    return lines[0]


async def test_slow_code_on_the_event_loop(app: Windlass, working: Any, caplog: pytest.LogCaptureFixture) -> None:
    stopped_at, started, may_end = 0.0, asyncio.Event(), asyncio.Event()

    @app.task(name="mail", queue=QUEUE)
    async def mail() -> None:
        nonlocal stopped_at
        started.set()
        try:
            await may_end.wait()
        finally:
            stopped_at = stopped_at or time.monotonic()

    async with working(app, concurrency=1):
        service = await app.aservice()
        begun_at, job_id = time.monotonic(), await enqueue(service)
        await started.wait()
        job = await take_again(service)
        await until(lambda: stopped_at)
        # At the deadline, not at the next heartbeat, and not before.
        assert LEASE_MS / 1000 <= stopped_at - begun_at < LEASE_MS / 1000 + 5
        assert job.id == job_id
        assert job.attempt >= 2
        after = await service.job([job_id]).one()
    line = line_about(caplog, job.key)
    assert f"windlass queues configure {QUEUE} --lease-renewal" in line
    assert f"windlass queues configure {QUEUE} --lease 5m" in line
    assert (after.job.state.label, after.job.lease_token) == ("running", job.lease_token)
    assert {attempt.reason for attempt in after.attempts} == {"lease_expired"}


async def test_the_worker_stops_code_without_waiting_for_a_heartbeat(app: Windlass) -> None:
    """Its heartbeats fail after the first: it knows the deadline."""
    started, stopped = asyncio.Event(), asyncio.Event()

    @app.task(name="mail", queue=QUEUE)
    async def mail() -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()

    worker = Worker(app, concurrency=1, has_loops=False)
    running = asyncio.create_task(worker.run())
    await worker.wait_until_ready()
    service = await app.aservice()
    await enqueue(service, lease_ms=1_500)
    await started.wait()
    holder = worker._heartbeat.holder
    await until(lambda: holder._fixed_ends)
    holder.beat = _no_beat  # type: ignore[method-assign]
    async with asyncio.timeout(10):
        await stopped.wait()
    worker.stop()
    await running
    await app.aclose()


async def _no_beat() -> None:
    return None


async def test_slow_code_in_a_thread(app: Windlass, working: Any, caplog: pytest.LogCaptureFixture) -> None:
    started, was_stopped = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    @app.task(name="mail", queue=QUEUE)
    def mail() -> None:
        loop.call_soon_threadsafe(started.set)
        try:
            while True:
                time.sleep(0.01)
        finally:
            loop.call_soon_threadsafe(was_stopped.set)

    async with working(app, concurrency=1):
        service = await app.aservice()
        job_id = await enqueue(service)
        await started.wait()
        job = await take_again(service)
        async with asyncio.timeout(10):
            await was_stopped.wait()
        assert job.id == job_id
    line_about(caplog, job.key)


@pytest.fixture
def children(engine: EngineProcess, monkeypatch: pytest.MonkeyPatch) -> Iterator[Windlass]:
    monkeypatch.setenv("WINDLASS_URL", engine.unix_url)
    monkeypatch.setenv("WINDLASS_NAMESPACE", f"fixed-{os.urandom(4).hex()}")
    yield process_app.app
    process_app.app.close()


async def test_slow_code_in_a_child_process(
    children: Windlass, working: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    started, cleaned = tmp_path / "started", tmp_path / "cleaned"
    async with working(children, concurrency=1):
        service = await children.aservice()
        await service.configure("default", {"lease_renewal": False})
        handle = await process_app.hold.using(lease="2s").aenqueue(str(started), str(cleaned))
        await until(started.exists)
        job = await take_again(service, "default")
        await until(cleaned.exists)
        assert job.id == handle.id_bytes
    line_about(caplog, job.key)


async def test_with_renewal_the_worker_keeps_the_job(
    app: Windlass, working: Any, caplog: pytest.LogCaptureFixture
) -> None:
    ended = asyncio.Event()

    @app.task(name="mail", queue=QUEUE)
    async def mail() -> None:
        await asyncio.sleep(3 * LEASE_MS / 1000)
        ended.set()

    caplog.set_level(logging.WARNING)
    async with working(app, concurrency=1):
        service = await app.aservice()
        await service.configure(QUEUE, {"lease_renewal": True, "history_length": 1})
        job_id = await enqueue(service)
        assert (await until_finished(service, job_id)).attempt == 1
        assert ended.is_set()
    assert caplog.messages == []


async def test_renewal_can_be_switched_on_while_a_job_runs(app: Windlass, working: Any) -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    @app.task(name="mail", queue=QUEUE)
    async def mail() -> None:
        started.set()
        await asyncio.sleep(4)
        ended.set()

    async with working(app, concurrency=1) as worker:
        service = await app.aservice()
        job_id = await enqueue(service, lease_ms=2_000)
        await started.wait()
        await until(lambda: worker._heartbeat.holder._fixed_ends)
        await service.configure(QUEUE, {"lease_renewal": True, "history_length": 1})
        assert (await until_finished(service, job_id)).attempt == 1
        assert ended.is_set()


async def test_code_in_time_is_not_disturbed(app: Windlass, working: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Timers of jobs that have ended stop nothing, also not a later job of the same worker."""
    ended = []

    @app.task(name="mail", queue=QUEUE)
    async def mail() -> None:
        await asyncio.sleep(0.35)
        ended.append(1)

    caplog.set_level(logging.WARNING)
    async with working(app, concurrency=2) as worker:
        service = await app.aservice()
        for _ in range(6):
            await enqueue(service)
        await until(lambda: worker.done == 6)
    assert len(ended) == 6
    assert caplog.messages == []
