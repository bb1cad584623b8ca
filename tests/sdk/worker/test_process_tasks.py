"""Tasks with pool='process' in a real worker: code that crashes, hangs or uses too much memory."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sdk.apps import process_app
from tests.support.engine_process import EngineProcess
from windlass import JobCancelled, JobFailed, Windlass

pytestmark = pytest.mark.anyio


@pytest.fixture
def children(engine: EngineProcess, monkeypatch: pytest.MonkeyPatch) -> Iterator[Windlass]:
    monkeypatch.setenv("WINDLASS_URL", engine.unix_url)
    monkeypatch.setenv("WINDLASS_NAMESPACE", f"children-{os.urandom(4).hex()}")
    yield process_app.app
    process_app.app.close()


async def _reason_of(handle: Any) -> tuple[str, list[str]]:
    with pytest.raises(JobFailed) as told:
        await handle
    service = await process_app.app.aservice()
    timeline = await service.job([handle.id_bytes]).one()
    return told.value.reason, [attempt.reason for attempt in timeline.attempts]


async def test_results_and_errors(children: Windlass, working: Any) -> None:
    async with working(children, concurrency=2):
        first, second = await (await process_app.pid.aenqueue()), await (await process_app.pid.aenqueue())
        assert first == second != os.getpid()  # a warm child is reused
        assert await (await process_app.in_a_loop.aenqueue("word")) == "WORD"
        with pytest.raises(JobFailed) as told:
            await (await process_app.wrong.aenqueue("no"))
    assert (told.value.type, told.value.message) == ("ValueError", "no")
    assert "raise ValueError(word)" in told.value.traceback


async def test_a_job_that_crashes_again_and_again_fails_as_that(children: Windlass, working: Any) -> None:
    async with working(children, concurrency=2):
        assert await _reason_of(await process_app.crash.aenqueue()) == ("crashed", ["crashed", "crashed"])
        assert await (await process_app.in_a_loop.aenqueue("alive")) == "ALIVE"


async def test_a_job_that_takes_too_much_memory(children: Windlass, working: Any) -> None:
    async with working(children, concurrency=2):
        reason, attempts = await _reason_of(await process_app.greedy.aenqueue())
    assert (reason, attempts) == ("out_of_memory", ["out_of_memory", "out_of_memory"])


@pytest.mark.parametrize("task", ["slow", "stubborn"])
async def test_time_limits_really_stop(children: Windlass, working: Any, task: str) -> None:
    async with working(children, concurrency=1):
        assert (await _reason_of(await children.tasks[task].aenqueue()))[0] == "timeout"
        assert await (await process_app.in_a_loop.aenqueue("next")) == "NEXT"


async def _until(path: Path) -> None:
    while not path.exists():  # noqa: ASYNC110, ASYNC240 (another process makes it)
        await asyncio.sleep(0.01)


async def test_cancel_lets_code_clean_up(children: Windlass, working: Any, tmp_path: Path) -> None:
    started, cleaned = tmp_path / "started", tmp_path / "cleaned"
    async with working(children, concurrency=1):
        handle = await process_app.hold.aenqueue(str(started), str(cleaned))
        await _until(started)
        await handle.acancel()
        with pytest.raises(JobCancelled):
            await handle
    assert cleaned.exists()


async def test_stopping_the_worker_gives_the_job_back(children: Windlass, working: Any, tmp_path: Path) -> None:
    started = tmp_path / "started"
    async with working(children, concurrency=1, grace=0):
        handle = await process_app.hold.aenqueue(str(started))
        await _until(started)
    job = await handle.ainfo()
    assert (job.state.label, job.attempt) == ("queued", 0)
    await children.aclose()


async def test_what_is_said_in_a_child(children: Windlass, working: Any) -> None:
    async with working(children, concurrency=1):
        await (await process_app.pid.aenqueue())  # starts the child
        handle = await process_app.talk.using(delay="300ms").aenqueue()
        values = [event.value async for event in handle.events() if event.kind == "emitted"]
        assert await handle == handle.id
        logs = await handle.alogs()
    assert [line.text for line in logs.lines] == ["said in a child"]
    assert values == [{"from": "child"}]
