"""Tasks that raise SystemExit or KeyboardInterrupt fail in every pool, and the worker process survives."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sdk.apps import exit_tasks
from tests.support.engine_process import EngineProcess
from tests.support.worker_process import LIMIT_S, WorkerProcess, WorkerStarter, worker_starter
from windlass import JobFailed

HERE = Path(__file__).parents[1] / "apps"
KINDS = (
    exit_tasks.in_loop,
    exit_tasks.in_thread,
    exit_tasks.in_process,
    exit_tasks.in_loop_of_process,
    exit_tasks.in_subtask,
    exit_tasks.in_task_group,
    exit_tasks.in_batch,
    exit_tasks.in_dependency,
)


@pytest.fixture(scope="module")
def workers(engine: EngineProcess) -> Iterator[WorkerStarter]:
    exit_tasks.app.redirect(url=engine.unix_url, namespace="exits")
    with worker_starter("exit_tasks:app", engine.unix_url, "exits", HERE) as workers:
        yield workers
    exit_tasks.app.close()


@pytest.fixture(scope="module")
def worker(workers: WorkerStarter) -> WorkerProcess:
    return workers.start("-c", "4").wait_ready()


@pytest.mark.parametrize("how", ["SystemExit", "KeyboardInterrupt"])
@pytest.mark.parametrize("task", KINDS, ids=lambda task: task.name)
def test_the_job_fails_after_its_tries(worker: WorkerProcess, task: Any, how: str) -> None:
    expected = "SystemExit" if task is exit_tasks.in_dependency else how
    with pytest.raises(JobFailed) as failed:
        task.enqueue(how).result(LIMIT_S)
    assert (failed.value.reason, failed.value.type, failed.value.attempts) == ("error", expected, 2)
    assert exit_tasks.add.enqueue(1, 2).result(LIMIT_S) == 3
    assert worker.is_alive


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_still_stop_the_worker(workers: WorkerStarter, worker: WorkerProcess, number: signal.Signals) -> None:
    assert worker.is_alive
    other = workers.start("-q", "other").wait_ready()
    exit_tasks.leave_behind.using(queue="other").enqueue("KeyboardInterrupt").result(LIMIT_S)
    assert exit_tasks.add.using(queue="other").enqueue(1, 2).result(LIMIT_S) == 3
    other.signal(number)
    assert other.wait() == 0
    assert "KeyboardInterrupt" in other.output
