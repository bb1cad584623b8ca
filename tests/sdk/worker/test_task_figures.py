"""Figures of tasks that a real worker measures: what its runs and reports add up to."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from windlass import Context, Windlass
from windlass.core.errors import EngineUnavailable, Forbidden, UnknownWorker
from windlass.core.operations import Fail, Finish, LeaseRef
from windlass.core.stats.task_figures import TASKS_PER_REPORT, TaskFigures, TaskSums
from windlass.sdk.failures import Retry
from windlass.sdk.worker import task_figures
from windlass.sdk.worker.task_figures import TaskRecorder, TaskReporter
from windlass.service import Service

pytestmark = pytest.mark.anyio
LIMIT_S = 30
FINISH = Finish(b"i" * 16, 1)


def failing(then: Any) -> Fail:
    return Fail(id=b"i" * 16, token=1, then=then)


# Sums


def test_ends_of_attempts_are_summed_by_queue_and_name() -> None:
    recorder = TaskRecorder()
    for outcome, run_s in ((FINISH, 0.005), (FINISH, 0.005), (failing("retry"), 1.0), (failing("final"), 1.0)):
        recorder.add("mail", "send", outcome, run_s)
    recorder.add("mail", "send", failing("cancelled"), 1.0)
    recorder.add("bulk", "send", FINISH, 0.0)
    for outcome in (None, LeaseRef(b"i" * 16, 1)):
        recorder.add("mail", "send", outcome, 1.0)
    assert recorder.take() == [
        TaskSums(queue="mail", name="send", failed=1, retried=1, cancelled=1, runs={10: 2}),
        TaskSums(queue="bulk", name="send", runs={0: 1}),
    ]
    assert recorder.take() == []


def test_the_number_of_summed_tasks_is_bounded() -> None:
    recorder = TaskRecorder()
    for number in range(TASKS_PER_REPORT + 1):
        recorder.add("q", str(number), FINISH, 0.0)
    assert len(recorder.take()) == TASKS_PER_REPORT


def test_no_end_is_lost_between_threads() -> None:
    recorder, taken = TaskRecorder(), list[TaskSums]()
    ending = threading.Event()

    def take_all() -> None:
        while not ending.is_set():
            taken.extend(recorder.take())

    taker = threading.Thread(target=take_all)
    taker.start()
    for _ in range(20_000):
        recorder.add("q", "n", FINISH, 0.0)
    ending.set()
    taker.join()
    taken.extend(recorder.take())
    assert sum(sums.runs[0] for sums in taken) == 20_000


# Reports


class FakeService:
    """Service whose reports have the given outcomes, in order; then they succeed."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.reports: list[tuple[int, list[TaskSums]]] = []

    async def report_tasks(self, _worker: bytes, number: int, tasks: list[TaskSums]) -> int:
        self.reports.append((number, tasks))
        if self.errors:
            raise self.errors.pop(0)
        return 0


def make_reporter(service: FakeService) -> tuple[TaskReporter, TaskRecorder]:
    recorder = TaskRecorder()
    return TaskReporter(service, b"w" * 16, recorder), recorder  # type: ignore[arg-type]


async def test_nothing_is_sent_while_no_attempt_ends() -> None:
    service = FakeService()
    reporter, _ = make_reporter(service)
    await reporter.report()
    await reporter.close()
    assert service.reports == []


@pytest.mark.parametrize("error", [EngineUnavailable("away"), UnknownWorker()])
async def test_a_report_that_failed_is_repeated_under_its_number(error: Exception) -> None:
    service = FakeService(error)
    reporter, recorder = make_reporter(service)
    recorder.add("q", "a", FINISH, 0.0)
    await reporter.report()
    recorder.add("q", "b", FINISH, 0.0)
    await reporter.close()
    first, again, second = service.reports
    assert first == again
    assert second[0] == first[0] + 1
    assert [sums.name for _, tasks in service.reports for sums in tasks] == ["a", "a", "b"]


async def test_a_worker_that_may_not_report_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    service = FakeService(Forbidden("no"))
    reporter, recorder = make_reporter(service)
    for _ in range(3):
        recorder.add("q", "a", FINISH, 0.0)
        await reporter.report()
    assert len(service.reports) == 1
    assert caplog.text.count("Could not report how tasks ran") == 1


# A real worker


async def test_the_runs_of_a_worker_are_on_the_page_of_its_task(
    app: Windlass, working: Any, engine_service: Service
) -> None:
    @app.task(queue="mail", retry=2)
    async def pick(ctx: Context, how: str) -> None:
        if how == "fail":
            raise ValueError("boom")
        if how == "retry" and ctx.attempt == 1:
            raise Retry(delay="0s")

    async with working(app):
        handles = await app.aenqueue_many(pick.call(how) for how in ("ok", "ok", "retry"))
        for handle in handles:
            await handle
    found = await engine_service.task("pick")
    assert found.queues == ("mail",)
    figures = found.figures
    assert (figures.finished, figures.failed, figures.retried, figures.cancelled) == (3, 0, 1, 0)
    assert figures.run_p99_ms is not None
    assert figures.run_p99_ms < LIMIT_S * 1000


async def test_a_running_worker_reports_now_and_then(
    app: Windlass, working: Any, engine_service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_figures, "REPORT_EVERY_S", 0.05)

    @app.task(queue="mail")
    async def ping() -> None: ...

    async with working(app):
        await (await ping.aenqueue())
        async with asyncio.timeout(LIMIT_S):
            while (await engine_service.task("ping")).figures == TaskFigures():
                engine_service.store.clock_offset_ms += 5_001  # past the cache
                await asyncio.sleep(0.05)
        assert [worker.queues for worker in (await engine_service.task("ping")).workers] == [("mail",)]


async def test_tasks_of_all_pools_are_measured(app: Windlass, working: Any, engine_service: Service) -> None:
    @app.task(queue="mail")
    def in_thread(number: int) -> int:
        return number

    @app.task(queue="mail")
    async def on_loop(number: int) -> int:
        return number

    async with working(app):
        for task in (in_thread, on_loop):
            assert await (await task.aenqueue(7)) == 7
    found = {task.name: task.figures.finished for task in await engine_service.tasks()}
    assert found == {"in_thread": 1, "on_loop": 1}


async def test_run_times_are_those_of_the_code(app: Windlass, working: Any, engine_service: Service) -> None:
    @app.task(queue="mail")
    async def nap() -> None:
        await asyncio.sleep(0.3)

    async with working(app):
        await (await nap.aenqueue())
    p50 = (await engine_service.task("nap")).figures.run_p50_ms
    assert p50 is not None
    assert 256 <= p50 < 5_000
