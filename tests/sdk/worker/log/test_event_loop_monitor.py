"""Warnings about code that blocks a worker's event loop."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.sdk.apps import log_app
from tests.support.engine_process import EngineProcess
from tests.support.worker_process import LIMIT_S, WorkerStarter, worker_starter
from windlass import Windlass, Worker
from windlass.core.ids import short_id
from windlass.store.store import Store

APPS = Path(__file__).parents[2] / "apps"


@pytest.fixture
def workers(engine: EngineProcess, store: Store) -> Iterator[WorkerStarter]:
    log_app.app.connect(store)
    with worker_starter("log_app:app", engine.unix_url, store.namespace, APPS) as found:
        yield found


def test_a_blocked_loop_is_reported_within_a_second(workers: WorkerStarter) -> None:
    process = workers.start("--log-format", "json").wait_ready()
    handle = log_app.block.enqueue(3.0)
    handle.result(LIMIT_S)
    process.wait_for_output("The event loop runs again.")
    process.wait_for_output('"outcome":"finished"')
    assert process.stop() == 0
    lines = [json.loads(line) for line in process.output.splitlines() if line.startswith("{")]
    [blocked] = [line for line in lines if "is blocked: block " in line["message"]]  # once per blockage
    again = next(line for line in lines if "runs again" in line["message"] and _at_s(line) > _at_s(blocked))
    [finished] = [line for line in lines if line.get("outcome") == "finished"]
    assert (blocked["level"], again["level"]) == ("warning", "warning")
    assert f"block {short_id(handle.id_bytes)} has not returned to it" in blocked["message"]
    assert "Use a sync task (`def`), or `await asyncio.to_thread(…)`" in blocked["message"]
    assert (blocked["job_id"], blocked["task_name"]) == (handle.id, "block")
    stack = blocked["message"].splitlines()[1:]
    assert "log_app.py" in stack[0]  # it begins with the code of the job
    assert "time.sleep(seconds)" in stack[1]
    assert float(again["message"].rsplit(" ", 2)[1]) == pytest.approx(3, abs=0.5)
    # It blocks for three seconds and is reported within the first. The margin is for a busy machine.
    assert _at_s(finished) - _at_s(blocked) > 1.5


def _at_s(line: dict[str, Any]) -> float:
    return datetime.fromisoformat(line["at"]).timestamp()


def test_a_short_block_is_not_reported(workers: WorkerStarter) -> None:
    process = workers.start("--burst")
    handles = [log_app.block.enqueue(0.2) for _ in range(3)]
    assert process.wait() == 0
    assert all(handle.state in ("finished", "ended") for handle in handles)
    assert "is blocked: block " not in process.output


@pytest.mark.anyio
async def test_code_in_a_task_of_the_job(app: Windlass, working: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def calculate() -> None:
        time.sleep(1.6)  # noqa: ASYNC251 (the mistake that is meant)

    @app.task
    async def plan() -> None:
        await asyncio.create_task(calculate(), name="calculate")

    caplog.set_level(logging.WARNING, "windlass.worker")
    async with working(app):
        await (await plan.aenqueue()).aresult(LIMIT_S)
        messages = [record.getMessage() for record in caplog.records if "is blocked" in record.getMessage()]
    # A busy machine may block the loop at other places, too.
    [line] = [message for message in messages if "time.sleep(1.6)" in message]
    assert "the asyncio task calculate has not returned" in line


@pytest.mark.anyio
async def test_a_worker_without_jobs_is_not_checked(app: Windlass, working: Any) -> None:
    may_end, runs = asyncio.Event(), asyncio.Event()

    @app.task
    async def hold() -> None:
        runs.set()
        await may_end.wait()

    worker: Worker
    async with working(app) as worker:
        await _until(lambda: not worker._monitor._is_watching)
        handle = await hold.aenqueue()
        await runs.wait()
        assert worker._monitor._is_watching
        may_end.set()
        await handle
        await _until(lambda: not worker._monitor._is_watching and worker._monitor._timer is None)


async def _until(is_so: Any) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not is_so():  # noqa: ASYNC110 (a state of another thread)
            await asyncio.sleep(0.01)
