"""`windlass worker` under its small parent: killed, crashed, stopped, and with a parent that is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
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
)
from windlass import JobFailed
from windlass.service import Service
from windlass.store.store import Store


def worker_pid(service: Service) -> int:
    """Wait for the only worker, and return its pid."""
    wait_until(lambda: len(list_workers(service)) == 1, "one worker is registered")
    [worker] = list_workers(service)
    return worker.info.pid


def is_running(pid: int) -> bool:
    """Not if it has ended and waits for the first process, which may never ask for its exit code."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_worker_that_is_killed_is_replaced_and_its_jobs_run_again(
    workers: WorkerStarter, connected: Service, place: JobNotes
) -> None:
    """Leases are long, so only the parent can have freed the jobs."""
    parent = workers.start("-c", "4", "--name", "only").wait_ready()
    first = worker_pid(connected)
    assert parent.children() == [first]
    handles = app.enqueue_many(held_long.call(place.path, number) for number in range(4))
    wait_until(lambda: len(place.started()) == 4, "all run")
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: len(place.started()) == 8, "all run again")
    assert {worker.info.name for worker in list_workers(connected)} == {"only"}
    assert worker_pid(connected) != first
    place.go()
    assert [handle.result(LIMIT_S) for handle in handles] == list(range(4))
    assert [handle.info().attempt for handle in handles] == [2] * 4
    assert count_finished(connected) == 4
    parent.wait_for_output("was ended by SIGKILL; restarting in 0.5 s.")
    parent.wait_for_output(f"Worker process {first} held 4 jobs. Each spends an attempt")
    assert parent.stop() == 0
    assert list_workers(connected) == []


@pytest.mark.parametrize("number", [1, 2], ids=["exit", "kill"])
def test_a_job_that_kills_its_worker_fails_in_the_end(
    workers: WorkerStarter, connected: Service, place: JobNotes, number: int
) -> None:
    parent = workers.start().wait_ready()
    with pytest.raises(JobFailed) as failed:
        poison.enqueue(place.path, number).result(LIMIT_S)
    assert (failed.value.reason, failed.value.type, failed.value.attempts) == ("crashed", "WorkerDied", 2)
    assert quick.enqueue(place.path, 7).result(LIMIT_S) == 7
    assert parent.stop() == 0


def test_a_hangup_gives_the_jobs_back(workers: WorkerStarter, connected: Service, place: JobNotes) -> None:
    """The terminal is closed: the worker dies at once, and no attempt is spent."""
    parent = workers.start().wait_ready()
    handle = held_long.enqueue(place.path, 0)
    wait_until(place.started, "it runs")
    parent.signal(signal.SIGHUP)
    assert parent.wait() == 128 + signal.SIGHUP
    assert list_workers(connected) == []
    assert (handle.state, handle.info().attempt) == ("queued", 0)


def test_the_worker_ends_when_its_parent_is_killed(workers: WorkerStarter, connected: Service, place: JobNotes) -> None:
    parent = workers.start("--grace", "0s").wait_ready()
    pid = worker_pid(connected)
    handle = held_long.enqueue(place.path, 0)
    wait_until(place.started, "it runs")
    parent.kill()
    wait_until(lambda: not is_running(pid), "it ends")
    assert list_workers(connected) == []
    assert (handle.state, handle.info().attempt) == ("queued", 0)


def test_without_a_parent(workers: WorkerStarter, connected: Service, place: JobNotes) -> None:
    worker = workers.start("--no-supervisor").wait_ready()
    assert worker_pid(connected) == worker.pid
    assert worker.children() == []
    worker.signal(signal.SIGKILL)
    assert worker.wait() == -signal.SIGKILL
    assert len(list_workers(connected)) == 1  # until it counts as lost


def test_a_stop_of_one_worker_ends_the_parent(workers: WorkerStarter, connected: Service) -> None:
    parent = workers.start().wait_ready()
    os.kill(worker_pid(connected), signal.SIGTERM)
    assert parent.wait() == 0
    assert "Stopped after 0 jobs." in parent.output


def test_the_parent_has_no_application_code_and_is_small(workers: WorkerStarter, connected: Service) -> None:
    parent = workers.start().wait_ready()
    command = Path(f"/proc/{parent.pid}/cmdline").read_bytes().split(b"\0")
    assert command[1:3] == [b"-I", b"-S"]
    assert command[3].endswith(b"foreground_parent.py")
    own_kb = sum(
        int(line.split()[1])
        for line in Path(f"/proc/{parent.pid}/smaps_rollup").read_text().splitlines()
        if line.startswith("Private_")
    )
    assert own_kb < 10 * 1024
    assert parent.stop() == 0


THREADED = """
import threading, time
threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
"""


def test_a_program_with_threads_is_not_forked(
    engine: EngineProcess, store: Store, connected: Service, place: JobNotes, tmp_path: Path
) -> None:
    """As agents do that start with the interpreter. The parent starts the worker by its command."""
    (tmp_path / "sitecustomize.py").write_text(THREADED)
    options = ("fault_tasks:app", "--url", engine.unix_url, "--namespace", store.namespace)
    apps = Path(__file__).parents[2] / "apps"
    process = WorkerProcess(*options, directory=apps, environment={"PYTHONPATH": str(tmp_path)})
    try:
        process.wait_ready()
        command = Path(f"/proc/{worker_pid(connected)}/cmdline").read_text()
        assert "--foreground" in command
        assert quick.enqueue(place.path, 7).result(LIMIT_S) == 7
        assert process.stop() == 0
    finally:
        process.remove()


def test_its_own_processes_do_without(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "windlass", "worker", "shop:app", "--processes", "2", "--no-supervisor"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 2
    assert "--no-supervisor cannot be used with --processes" in done.stderr
