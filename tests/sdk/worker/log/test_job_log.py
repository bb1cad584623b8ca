"""The lines that a worker logs about the ends of its jobs."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sdk.apps import log_app
from tests.support.engine_process import EngineProcess
from tests.support.worker_process import LIMIT_S, WorkerProcess, WorkerStarter, wait_until, worker_starter
from windlass import Backoff, Context, GiveUp, JobCancelled, JobFailed, Windlass
from windlass.core.ids import short_id
from windlass.core.operations import LeaseRef
from windlass.sdk.worker import job_log
from windlass.sdk.worker.held_runs import HeldRuns
from windlass.store.store import Store

pytestmark = pytest.mark.anyio
TOOK = r"(under 1 ms|[\d.]+ (ms|s))"
APPS = Path(__file__).parents[2] / "apps"


def lines_of(caplog: pytest.LogCaptureFixture, handle: Any) -> list[tuple[str, str]]:
    """Return level and text of the lines about a job, without the words that name it."""
    found = []
    for record in caplog.records:
        if record.name in ("windlass.worker.jobs", "windlass.worker.failures"):
            name, short, text = record.getMessage().split(" ", 2)
            if short == short_id(handle.id_bytes):
                assert (record.job_id, record.task_name) == (handle.id, name)  # type: ignore[attr-defined]
                found.append((record.levelname, text))
    return found


@pytest.fixture(autouse=True)
def _infos(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "windlass.worker")


async def until_ended(handle: Any) -> None:
    with pytest.raises((JobFailed, JobCancelled)):
        await handle.aresult(LIMIT_S)


async def until_logged(caplog: pytest.LogCaptureFixture, handle: Any) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not lines_of(caplog, handle):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_ends_in_each_pool(app: Windlass, working: Any, caplog: pytest.LogCaptureFixture) -> None:
    @app.task
    async def on_loop() -> None:
        await asyncio.sleep(0.05)

    @app.task
    def in_thread() -> None:
        pass

    @app.batch_task(most=3, wait="20ms")
    async def many(items: list[int]) -> None:
        pass

    async with working(app):
        handles = [await task.aenqueue() for task in (on_loop, in_thread)]
        handles += [await many.aenqueue(number) for number in range(3)]
        for handle in handles:
            await handle
    for handle in handles:
        [(level, text)] = lines_of(caplog, handle)
        assert level == "INFO"
        assert re.fullmatch(f"finished in {TOOK}", text)
    assert int(lines_of(caplog, handles[0])[0][1].split()[2]) >= 45
    finished = [record for record in caplog.records if getattr(record, "outcome", "") == "finished"]
    assert len(finished) == 5
    assert all(record.ran_ms >= 0 for record in finished)  # type: ignore[attr-defined]


async def test_failures(app: Windlass, working: Any, caplog: pytest.LogCaptureFixture) -> None:
    @app.task(retry=Backoff(tries=3, base=0.01, jitter=0))
    def fetch() -> None:
        raise OSError("connection refused")

    @app.task(retry=Backoff(tries=3))
    async def refuse() -> None:
        raise GiveUp("no such address")

    @app.task(timeout="100ms", retry=Backoff(tries=1))
    async def hang() -> None:
        await asyncio.Event().wait()

    async with working(app):
        handles = [await task.aenqueue() for task in (fetch, refuse, hang)]
        for handle in handles:
            await until_ended(handle)
    fetched, refused, hung = (lines_of(caplog, handle) for handle in handles)
    assert [level for level, _ in fetched] == ["WARNING", "WARNING", "ERROR"]
    words = [re.sub(rf"in {TOOK} \(", "in … (", text.splitlines()[0]) for _, text in fetched]
    assert words == [
        "failed in … (attempt 1 of 3, retried in 10 ms): OSError: connection refused",
        "failed in … (attempt 2 of 3, retried in 20 ms): OSError: connection refused",
        "failed in … (attempt 3 of 3): OSError: connection refused",
    ]
    assert 'raise OSError("connection refused")' in fetched[-1][1]
    assert "(attempt 1 of 3, not retried): GiveUp: no such address" in refused[0][1]
    assert "(attempt 1 of 1): timeout: The attempt took longer" in hung[0][1]


async def test_ends_that_are_no_failures(app: Windlass, working: Any, caplog: pytest.LogCaptureFixture) -> None:
    began = asyncio.Event()

    @app.task
    async def hold() -> None:
        began.set()
        await asyncio.Event().wait()

    @app.task
    async def order(ctx: Context) -> None:
        await ctx.wait_for("approval", timeout="1h")

    @app.task
    async def rest(ctx: Context) -> None:
        await ctx.sleep("2h")

    @app.task
    async def parent(ctx: Context) -> None:
        if not ctx.is_resumed:
            await ctx.aspawn(child.call())

    @app.task
    async def child() -> None:
        pass

    async with working(app, grace=0) as worker:
        cancelled, ordered, resting, spawning = [await task.aenqueue() for task in (hold, order, rest, parent)]
        await began.wait()
        await cancelled.acancel()
        await until_ended(cancelled)
        await spawning
        began.clear()
        released = await hold.aenqueue()
        await began.wait()
        async with asyncio.timeout(LIMIT_S):
            while not all(lines_of(caplog, handle) for handle in (ordered, resting)):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        worker.stop()
    expected = {
        cancelled: [f"was cancelled after {TOOK}"],
        ordered: [f"suspended after {TOOK}: waits for signal approval"],
        resting: [f"suspended after {TOOK}: sleeps for 2 h"],
        spawning: [f"waits for its children after {TOOK}", f"finished in {TOOK}"],
        released: [f"was given back after {TOOK}: the worker stops"],
    }
    for handle, patterns in expected.items():
        found = lines_of(caplog, handle)
        assert len(found) == len(patterns), found
        for (level, text), pattern in zip(found, patterns, strict=True):
            assert level == "INFO"
            assert re.fullmatch(pattern, text)


async def test_it_can_be_turned_off(app: Windlass, working: Any, caplog: pytest.LogCaptureFixture) -> None:
    @app.task(retry=Backoff(tries=1))
    async def act(fails: bool) -> None:
        if fails:
            raise OSError

    async with working(app, job_log=False):
        quiet, failed = await act.aenqueue(False), await act.aenqueue(True)
        await quiet
        await until_ended(failed)
    assert lines_of(caplog, quiet) == []
    assert [level for level, _ in lines_of(caplog, failed)] == ["ERROR"]  # a failure is always logged


async def test_a_flood_is_counted(app: Windlass, working: Any, caplog: pytest.LogCaptureFixture) -> None:
    @app.task
    async def quick() -> None:
        pass

    jobs = 4 * job_log.LINES_PER_S
    handles = await app.aenqueue_many(quick.call() for _ in range(jobs))
    async with working(app, concurrency=100) as worker:
        async with asyncio.timeout(LIMIT_S):
            while worker.done < jobs:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    single = sum(len(lines_of(caplog, handle)) for handle in handles)
    counted = [record for record in caplog.records if hasattr(record, "count")]
    assert single >= job_log.LINES_PER_S
    assert single + sum(record.count for record in counted) == jobs  # no job is left out
    assert counted
    assert re.fullmatch(r"quick: \d+ further jobs? finished within a second\.", counted[0].getMessage())


@pytest.fixture
def losses(monkeypatch: pytest.MonkeyPatch) -> threading.Semaphore:
    """Count the heartbeats that find the lease of a run lost."""
    found, on_lost = threading.Semaphore(0), HeldRuns.on_lost

    def count(self: HeldRuns, lease: LeaseRef) -> None:
        on_lost(self, lease)
        found.release()

    monkeypatch.setattr(HeldRuns, "on_lost", count)
    return found


def wait_for_beats(losses: threading.Semaphore) -> None:
    """Block the event loop until three heartbeats have found that a lease is lost."""
    for _ in range(3):
        assert losses.acquire(timeout=LIMIT_S)


async def test_a_lost_lease_is_one_warning(
    app: Windlass, working: Any, caplog: pytest.LogCaptureFixture, losses: threading.Semaphore
) -> None:
    began = asyncio.Event()

    @app.task(lease="200ms")
    async def hold() -> None:
        began.set()
        await asyncio.Event().wait()

    async with working(app):
        handle = await hold.aenqueue()
        await began.wait()
        service = await app.aservice()
        await service.pause("default")
        await service.requeue([handle.id_bytes])
        wait_for_beats(losses)
        await until_logged(caplog, handle)
    [(level, text)] = lines_of(caplog, handle)
    assert level == "WARNING"
    assert re.fullmatch(f"lost its lease after {TOOK}. Its code is stopped; another worker retries it.", text)


@pytest.mark.parametrize("returns", [False, True], ids=["waits", "returns"])
async def test_a_timeout_that_the_engine_has_enforced(
    app: Windlass, working: Any, caplog: pytest.LogCaptureFixture, losses: threading.Semaphore, returns: bool
) -> None:
    """The blocked loop cannot stop the job, so the engine ends the attempt, and the worker finds no lease."""

    @app.task(timeout="200ms", lease="300ms", retry=1)
    async def hang() -> None:
        wait_for_beats(losses)
        if not returns:
            await asyncio.Event().wait()

    async with working(app):
        handle = await hang.aenqueue()
        await until_ended(handle)
        await until_logged(caplog, handle)
    level, text = lines_of(caplog, handle)[-1]
    assert level == "WARNING"
    if returns:
        end = rf"ran into its timeout of 200 ms\. The engine had ended its attempt, and has refused .* after {TOOK}\."
    else:
        end = rf"ran into its timeout after {TOOK}\. The engine has ended its attempt; its code is stopped\."
    assert re.fullmatch(end, text)
    assert len(lines_of(caplog, handle)) == 1 + returns  # the worker logs the return before it reports it


# Real processes


@pytest.fixture
def log_workers(engine: EngineProcess, store: Store) -> Iterator[WorkerStarter]:
    log_app.app.connect(store)
    with worker_starter("log_app:app", engine.unix_url, store.namespace, APPS) as found:
        yield found


def run_jobs(workers: WorkerStarter, *options: str) -> tuple[WorkerProcess, list[Any]]:
    handles = [task.enqueue(7) for task in (log_app.send_mail, log_app.pack, log_app.resize)]
    handles.append(log_app.fetch.enqueue())
    process = workers.start("--burst", *options)
    assert process.wait() == 0, process.output
    return process, handles


def test_lines_of_text_name_the_job_once(log_workers: WorkerStarter) -> None:
    process, handles = run_jobs(log_workers)
    for handle in handles[:3]:
        short = short_id(handle.id_bytes)
        [line] = [line for line in process.output.splitlines() if short in line]
        assert re.fullmatch(rf".* INFO windlass\.worker\.jobs: \w+ {short} finished in {TOOK}", line)
        assert line.count(short) == 1
    failures = [line for line in process.output.splitlines() if "windlass.worker.failures: " in line]
    assert ["WARNING" in failures[0], "ERROR" in failures[1]] == [True, True]
    assert all(line.endswith("OSError: connection refused") for line in failures)


def test_lines_of_json_have_fields(log_workers: WorkerStarter) -> None:
    process, handles = run_jobs(log_workers, "--log-format", "json")
    lines = [json.loads(line) for line in process.output.splitlines() if line.startswith("{")]
    ended = {line["job_id"]: line for line in lines if line.get("outcome") == "finished"}
    for handle, task in zip(handles, ("send_mail", "pack", "resize"), strict=False):
        line = ended[handle.id]
        fields = {"level": "info", "task_name": task, "attempt": 1, "queue_name": "default", "outcome": "finished"}
        assert fields.items() <= line.items()
        assert line["ran_ms"] >= 0
        assert "count" not in line
    failed = [line for line in lines if line["logger"] == "windlass.worker.failures"]
    assert [(line["outcome"], line["attempt"], line["reason"]) for line in failed] == [
        ("retried", 1, "error"),
        ("failed", 2, "error"),
    ]


@pytest.mark.parametrize("processes", [(), ("--processes", "1")], ids=["one", "supervised"])
def test_the_option_turns_it_off(log_workers: WorkerStarter, processes: tuple[str, ...]) -> None:
    process, _ = run_jobs(log_workers, "--no-job-log", *processes)
    assert "windlass.worker.jobs" not in process.output
    assert process.output.count("windlass.worker.failures") == 2


def test_the_setting_turns_it_off(
    engine: EngineProcess, store: Store, log_workers: WorkerStarter, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = log_app.send_mail.enqueue(7)
    arguments = ("log_app:app", "--burst", "--url", engine.unix_url, "--namespace", store.namespace)
    process = WorkerProcess(*arguments, directory=APPS, environment={"WINDLASS_JOB_LOG": "off"})
    try:
        wait_until(lambda: not process.is_alive, "it has ended")
        assert handle.result(LIMIT_S) == 7
        assert "windlass.worker.jobs" not in process.output
    finally:
        process.remove()
