"""Handles: errors that say what to do, and a job that prints for people."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.namespace import record_operations
from windlass import Backoff, EventLoopBlocked, JobFailed, Windlass
from windlass.core.errors import EngineUnavailable
from windlass.core.job import Job
from windlass.service import Service

pytestmark = pytest.mark.anyio
TIMED_OUT = r'Job {id} has not ended within 10 ms: no worker listens to queue "default": start a worker for it\.'


@pytest.fixture(params=["engine", "server"])
async def client(request: pytest.FixtureRequest, app: Windlass, served: str) -> AsyncIterator[Windlass]:
    client = app if request.param == "engine" else Windlass(served)

    @client.task
    async def add(a: int, b: int) -> int:
        return a + b

    yield client
    await client.aclose()


async def test_a_timeout_says_why_the_job_has_not_ended(client: Windlass) -> None:
    handle = await client.tasks["add"].aenqueue(1, 2)
    with pytest.raises(TimeoutError, match=TIMED_OUT.format(id=handle.id)):
        await handle.aresult("10ms")
    with pytest.raises(TimeoutError, match=TIMED_OUT.format(id=handle.id)):
        await asyncio.to_thread(handle.result, 0.01)


async def test_a_reason_that_cannot_be_read_is_left_out(client: Windlass, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = await client.tasks["add"].aenqueue(1, 2)

    def refuse(*_: Any) -> Any:
        raise EngineUnavailable("gone")

    for service in (client.service, await client.aservice()):
        monkeypatch.setattr(service, "explain", refuse)
    message = rf"^Job {handle.id} has not ended within 10 ms\.$"
    with pytest.raises(TimeoutError, match=message):
        await handle.aresult("10ms")
    with pytest.raises(TimeoutError, match=message):
        await asyncio.to_thread(handle.result, "10ms")


async def test_only_a_timeout_costs_the_further_read(
    app: Windlass, engine: Any, working: Any, engine_service: Service
) -> None:
    @app.task
    async def answer() -> int:
        return 42

    async with working(app):
        handle = await answer.aenqueue()
        assert await handle == 42
    with record_operations(engine, engine_service.store) as called:
        assert await handle == 42
    assert called == ["result"]


async def test_a_blocking_wait_in_an_event_loop_is_refused(client: Windlass) -> None:
    handle = await client.tasks["add"].aenqueue(1, 2)
    with pytest.raises(EventLoopBlocked, match=r"Use `await job` or `await job\.aresult\(timeout=…\)`\.") as refused:
        handle.result(0)
    assert isinstance(refused.value, RuntimeError)
    with pytest.raises(EventLoopBlocked, match=r"Use `async for entry in job\.stream\(\)`"):
        list(handle.stream())
    assert handle.state == "queued"  # short calls stay possible


async def test_info_prints_for_people(client: Windlass, engine_service: Service, working: Any) -> None:
    waiting = await client.tasks["add"].using(delay="1h").aenqueue(1, 2)
    text = str(await waiting.ainfo())
    assert text.startswith(f"add {waiting.id}: scheduled\n  queue    default\n  attempt  0 of ")
    assert re.search(r"^  due      \d{4}-.* \(in 1 h\)$|^  due      \d{4}-.* \(in \d+ min\)$", text, re.M)

    @client.task(retry=Backoff(tries=2, base=0))
    async def fetch() -> None:
        raise OSError("connection refused")

    async with working(client):
        failed = await fetch.aenqueue()
        with pytest.raises(JobFailed):
            await failed
    info = await failed.ainfo()
    lines = str(info).splitlines()
    assert lines[0] == f"fetch {failed.id}: failed"
    assert [line.split()[0] for line in lines[1:]] == ["queue", "attempt", "created", "started", "ended", "error"]
    assert lines[2] == "  attempt  2 of 2"
    assert lines[-1] == "  error    attempt 2: OSError: connection refused"
    assert [attempt.attempt for attempt in info.attempts] == [1, 2]
    assert isinstance(info, Job)
    assert repr(info).startswith("JobInfo(id=")
    assert "attempt 2" in str(await asyncio.to_thread(failed.info))
