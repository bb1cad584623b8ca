"""Several real worker processes under one supervisor."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sdk.apps.fault_tasks import app, held_long, poison, quick
from tests.support.engine_process import EngineProcess
from tests.support.worker_process import (
    LIMIT_S,
    JobNotes,
    WorkerProcess,
    WorkerStarter,
    count_finished,
    list_workers,
    wait_until,
    worker_starter,
)
from windlass import JobFailed, Windlass
from windlass.core.job import NewJob
from windlass.service import Service
from windlass.store.store import Store

HERE = Path(__file__).parents[1] / "apps"


def wait_for_processes(service: Service, count: int) -> list[int]:
    """Wait until there are so many worker processes and return them."""
    wait_until(lambda: len(list_workers(service)) == count, f"{count} workers are registered")
    return [worker.info.pid for worker in list_workers(service)]


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_process_that_is_killed_is_replaced_and_its_jobs_run_again(
    workers: WorkerStarter, connected: Service, place: JobNotes
) -> None:
    parent = workers.start("-c", "4", "--processes", "2", "--name", "w").wait_ready()
    pids = wait_for_processes(connected, 2)
    assert {worker.info.name for worker in list_workers(connected)} == {"w-1", "w-2"}
    handles = app.enqueue_many(held_long.call(place.path, number) for number in range(8))
    wait_until(lambda: len(place.started()) == 8, "both are full")
    os.kill(pids[0], signal.SIGKILL)
    wait_until(lambda: len(place.started()) == 12, "what it held runs again, though its lease is long")
    assert pids[0] not in wait_for_processes(connected, 2)
    place.go()
    assert [handle.result(LIMIT_S) for handle in handles] == list(range(8))
    assert count_finished(connected) == 8
    assert "was ended by SIGKILL; restarting in" in parent.output
    assert parent.stop() == 0
    assert list_workers(connected) == []


@pytest.mark.parametrize("number", [1, 2], ids=["exit", "kill"])
def test_a_job_that_kills_its_worker_fails_in_the_end(
    workers: WorkerStarter, connected: Service, place: JobNotes, number: int
) -> None:
    parent = workers.start("--processes", "1").wait_ready()
    with pytest.raises(JobFailed) as told:
        poison.enqueue(place.path, number).result(LIMIT_S)
    assert (told.value.reason, told.value.type, told.value.attempts) == ("crashed", "WorkerDied", 2)
    assert place.started() == [number, number]
    assert quick.enqueue(place.path, 7).result(LIMIT_S) == 7
    assert parent.stop() == 0


def test_without_their_parent_the_workers_stop_and_give_back(
    workers: WorkerStarter, connected: Service, place: JobNotes
) -> None:
    parent = workers.start("--processes", "2", "--grace", "0s").wait_ready()
    pids = wait_for_processes(connected, 2)
    handle = held_long.enqueue(place.path, 0)
    wait_until(place.started, "it runs")
    parent.kill()
    wait_until(lambda: not any(is_there(pid) for pid in pids), "they end")
    assert list_workers(connected) == []
    assert (handle.state, handle.info().attempt) == ("queued", 0)


def test_a_signal_to_all_processes_still_leaves_them_the_grace(
    workers: WorkerStarter, connected: Service, place: JobNotes
) -> None:
    parent = workers.start("--processes", "2", "--grace", "10m").wait_ready()
    pids = wait_for_processes(connected, 2)
    handle = held_long.enqueue(place.path, 0)
    wait_until(place.started, "it runs")
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
    parent.wait_for_output("the grace period to finish", times=2)
    parent.signal(signal.SIGTERM)
    parent.wait_for_output("Stopping all worker processes")
    place.go()
    assert parent.wait() == 0
    assert handle.result(LIMIT_S) == 0


def test_the_second_signal_is_passed_on(workers: WorkerStarter, connected: Service, place: JobNotes) -> None:
    parent = workers.start("--processes", "2", "--grace", "10m").wait_ready()
    wait_for_processes(connected, 2)
    handle = held_long.enqueue(place.path, 0)
    wait_until(place.started, "it runs")
    parent.signal(signal.SIGTERM)
    wait_until(lambda: len(list_workers(connected)) == 1, "the idle one has ended")
    assert parent.stop() == 0
    assert (handle.state, handle.info().attempt) == ("queued", 0)


def test_burst_in_several_processes(workers: WorkerStarter, connected: Service, place: JobNotes) -> None:
    handles = app.enqueue_many(quick.call(place.path, number) for number in range(300))
    assert workers.start("--processes", "2", "--burst").wait() == 0
    assert [handle.result(LIMIT_S) for handle in handles] == list(range(300))
    assert count_finished(connected) == 300


def test_the_number_of_processes_follows_the_queue(workers: WorkerStarter, connected: Service, place: JobNotes) -> None:
    parent = workers.start("-c", "1", "--autoscale", "1-3", "--scale-down-after", "1s").wait_ready()
    wait_for_processes(connected, 1)
    handles = app.enqueue_many(held_long.call(place.path, number) for number in range(6))
    wait_for_processes(connected, 3)
    wait_until(lambda: len(place.started()) == 3, "all three are at work")
    place.go()
    assert [handle.result(LIMIT_S) for handle in handles] == list(range(6))
    wait_for_processes(connected, 1)
    assert len(place.started()) == 6  # no job was released when processes ended
    assert parent.stop() == 0


def test_stacks_of_all_processes_on_request(workers: WorkerStarter, connected: Service) -> None:
    parent = workers.start("--processes", "2").wait_ready()
    wait_for_processes(connected, 2)
    parent.signal(signal.SIGUSR1)
    parent.wait_for_output("(most recent call first)", times=3)
    assert parent.stop() == 0


# Reloading


APP = "from windlass import Windlass\napp = Windlass()\n@app.task\nasync def value() -> int:\n    return {}\n"


@pytest.fixture
def reloading(engine: EngineProcess, store: Store, tmp_path: Path) -> Iterator[WorkerProcess]:
    (tmp_path / "written.py").write_text(APP.format(1))
    with worker_starter("written:app", engine.unix_url, store.namespace, tmp_path) as found:
        yield found.start("--reload").wait_ready()


def value_now(store: Store) -> object:
    asking = Windlass()
    asking.connect(store)
    made = asking.service.enqueue([NewJob(queue="default", name="value", result_ttl_ms=60_000)]).one().wait()
    return asking.job(str(_key(made.id))).result(LIMIT_S)


def _key(job_id: bytes) -> str:
    from windlass.core.ids import format_id

    return format_id(job_id)


def test_reload_when_a_file_changes(reloading: WorkerProcess, store: Store, tmp_path: Path) -> None:
    assert value_now(store) == 1
    (tmp_path / "written.py").write_text(APP.format(22))
    wait_until(lambda: value_now(store) == 22, "the new code runs")
    (tmp_path / "written.py").write_text("app = (")
    reloading.wait_for_output("starts again when a file changes")
    assert "SyntaxError" in reloading.output
    (tmp_path / "written.py").write_text(APP.format(333))
    wait_until(lambda: value_now(store) == 333, "the repaired code runs")
    assert reloading.stop() == 0


@pytest.mark.parametrize("option", ["--processes=2", "--autoscale=1-2"])
def test_a_wrong_target_is_said_once(engine: EngineProcess, tmp_path: Path, option: str) -> None:
    with worker_starter("nowhere:app", engine.unix_url, "t", tmp_path) as found:
        process = found.start(option)
        assert process.wait() == 2
        assert process.output.count("There is no module 'nowhere'") == 1
