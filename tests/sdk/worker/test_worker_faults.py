"""Real worker processes that are killed, stopped, hung or cut off: no job is lost, none ends twice."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.sdk.apps.fault_tasks import (
    app,
    hang,
    held_long,
    held_long_in_process,
    held_long_in_thread,
    in_loop,
    in_process,
    in_thread,
    quick,
)
from tests.support.engine_process import EngineProcess
from tests.support.namespace import send_command
from tests.support.worker_process import (
    LIMIT_S,
    JobNotes,
    WorkerStarter,
    count_finished,
    list_workers,
    wait_until,
    worker_starter,
)
from windlass.core.job import NewJob
from windlass.service import Service
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store

HERE = Path(__file__).parents[1] / "apps"
KINDS = [in_loop, in_thread, in_process]


def judge(service: Service, handles: list[Any]) -> None:
    """Check that each job has ended once, with its own result, and that nothing is left."""
    assert [_result(handle) for handle in handles] == list(range(len(handles)))
    assert count_finished(service) == len(handles)
    (stats,) = service.stats(["default"]).wait()
    assert (stats.queued, stats.scheduled, stats.running, stats.failed) == (0, 0, 0, 0)


def _result(handle: Any) -> Any:
    try:
        return handle.result(LIMIT_S)
    except TimeoutError:
        raise AssertionError(handle.explain().summary) from None


@pytest.mark.parametrize("task", KINDS, ids=lambda task: task.name)
def test_kill_in_the_middle_of_jobs(task: Any, workers: WorkerStarter, connected: Service, place: JobNotes) -> None:
    doomed, other = workers.start("-c", "4", "--no-supervisor").wait_ready(), workers.start("-c", "4").wait_ready()
    handles = app.enqueue_many(task.call(place.path, number) for number in range(20))
    wait_until(lambda: len(place.started()) >= 8, "both workers are full")
    doomed.kill()
    place.go()
    judge(connected, handles)
    assert len(place.started()) > 20  # jobs of the killed worker ran again
    assert other.stop() == 0


@pytest.mark.parametrize("task", KINDS, ids=lambda task: task.name)
def test_stopped_beyond_its_lease(task: Any, workers: WorkerStarter, connected: Service, place: JobNotes) -> None:
    frozen = workers.start("-c", "2", "--no-supervisor").wait_ready()
    handles = app.enqueue_many(task.call(place.path, number) for number in range(2))
    wait_until(lambda: len(place.started()) >= 2, "it runs both")
    frozen.signal(signal.SIGSTOP)
    other = workers.start("-c", "2").wait_ready()
    wait_until(lambda: len(place.started()) >= 4, "the other runs them again")
    place.go()
    judge(connected, handles)
    frozen.signal(signal.SIGCONT)
    wait_until(lambda: "refused" in frozen.output or "lost its lease" in frozen.output, "its late results are refused")
    assert (frozen.stop(), other.stop()) == (0, 0)
    assert count_finished(connected) == 2


def test_stopped_while_it_waits(workers: WorkerStarter, connected: Service, place: JobNotes) -> None:
    """A job handed to it goes back, unspent, to another worker. When it wakes up, it has no part in the job."""
    frozen = workers.start("-c", "1", "--no-supervisor").wait_ready()
    quick.enqueue(place.path, 0).result(LIMIT_S)
    wait_until(lambda: connected.stats(["default"]).wait()[0].waiting_takers, "it waits")
    frozen.signal(signal.SIGSTOP)
    handle = quick.enqueue(place.path, 1)
    other = workers.start("-c", "1").wait_ready()
    assert handle.result(LIMIT_S) == 1
    frozen.signal(signal.SIGCONT)
    assert (frozen.stop(), other.stop()) == (0, 0)
    assert place.started() == [0, 1]
    assert count_finished(connected) == 2


def test_an_event_loop_that_hangs_keeps_its_lease(workers: WorkerStarter, connected: Service, place: JobNotes) -> None:
    worker, other = workers.start("-c", "2").wait_ready(), workers.start("-c", "2").wait_ready()
    handle = hang.enqueue(place.path, 0)
    judge(connected, [handle])
    assert place.started() == [0]
    (_, _, pid), *_ = place.notes()
    hung = worker if pid in worker.children() else other
    hung.wait_for_output("event loop is blocked")
    assert "fault_tasks.py" in hung.output
    assert "time.sleep(6)" in hung.output
    assert (worker.stop(), other.stop()) == (0, 0)


def test_sigterm_under_load(workers: WorkerStarter, connected: Service, place: JobNotes) -> None:
    worker = workers.start("-c", "4", "--grace", "200ms").wait_ready()
    handles = app.enqueue_many(
        [
            held_long.call(place.path, 0),
            held_long_in_thread.call(place.path, 1),
            held_long_in_process.call(place.path, 2),
            *(quick.call(place.path, number) for number in range(3, 1000)),
        ]
    )
    wait_until(lambda: {0, 1, 2} < set(place.started()) and len(place.started()) > 20, "it is at work")
    assert worker.stop() == 0
    assert list_workers(connected) == []
    held = [handle.info() for handle in handles[:3]]
    assert [(job.state.label, job.attempt) for job in held] == [("queued", 0)] * 3  # released without a spent attempt
    place.go()
    assert workers.start("--burst").wait() == 0
    judge(connected, handles)


def test_the_second_sigterm_ends_it_at_once(workers: WorkerStarter, connected: Service, place: JobNotes) -> None:
    worker = workers.start("--grace", "10m").wait_ready()
    handle = held_long.enqueue(place.path, 0)
    wait_until(place.started, "it runs")
    worker.signal(signal.SIGTERM)
    worker.wait_for_output("the grace period to finish")
    assert worker.stop() == 0
    assert (handle.state, handle.info().attempt) == ("queued", 0)


def test_jobs_end_within_the_grace(workers: WorkerStarter, connected: Service, place: JobNotes) -> None:
    worker = workers.start("--grace", "10m").wait_ready()
    handle = held_long.enqueue(place.path, 0)
    wait_until(place.started, "it runs")
    worker.signal(signal.SIGINT)
    worker.wait_for_output("the grace period to finish")
    place.go()
    assert worker.wait() == 0
    judge(connected, [handle])


def test_the_engine_is_killed_under_running_workers(place: JobNotes) -> None:
    config = ("--appendonly", "yes", "--appendfsync", "always")
    with EngineProcess("valkey", config=config) as engine:
        store = Store(parse_url(engine.unix_url), patience_s=LIMIT_S)
        app.connect(store)
        service = Service(store)
        with worker_starter("fault_tasks:app", engine.unix_url, store.namespace, HERE) as workers:
            crew = [workers.start("-c", "4").wait_ready() for _ in range(2)]
            held = app.enqueue_many(in_loop.call(place.path, number) for number in range(4))
            wait_until(lambda: len(set(place.started())) == 4, "they run")
            more = []
            for round_ in range(3):
                more += app.enqueue_many(quick.call(place.path, 4 + round_ * 100 + n) for n in range(100))
                engine.kill()
                engine.start()
            place.go()
            judge(service, [*held, *more])
            assert [worker.stop() for worker in crew] == [0, 0]
        store.close_sync()


def test_no_engine_at_first(place: JobNotes) -> None:
    with EngineProcess("valkey") as engine:
        store = Store(parse_url(engine.unix_url), patience_s=LIMIT_S)
        app.connect(store)
        store.open_sync()
        engine.stop()
        with worker_starter("fault_tasks:app", engine.unix_url, store.namespace, HERE) as workers:
            late, never = workers.start(), workers.start()
            for worker in (late, never):
                worker.wait_for_output("Waiting for")
            assert never.stop() == 0
            engine.start()
            late.wait_ready()
            assert quick.enqueue(place.path, 0).result(LIMIT_S) == 0
            assert late.stop() == 0
        store.close_sync()


def test_stacks_on_request(workers: WorkerStarter, connected: Service, place: JobNotes) -> None:
    worker = workers.start().wait_ready()
    in_thread.enqueue(place.path, 0)
    wait_until(place.started, "it runs")
    os.kill(worker.pid, signal.SIGUSR1)
    worker.wait_for_output("in in_thread")
    assert "heartbeat.py" in worker.output
    place.go()
    assert worker.stop() == 0


def test_names_that_cannot_be_set_aside_yet(place: JobNotes) -> None:
    """An engine error during the return of a job of an unknown name does not end the worker."""
    with EngineProcess("valkey") as engine:
        store = Store(parse_url(engine.unix_url), patience_s=LIMIT_S)
        app.connect(store)
        with worker_starter("fault_tasks:app", engine.unix_url, store.namespace, HERE) as workers:
            worker = workers.start().wait_ready()
            store.open_sync()  # opened first: a user without this right is refused on opening
            send_command(store, "ACL", "SETUSER", "default", "-hset")  # only `configure` needs it here
            app.service.enqueue([NewJob(queue="default", name="nobody_knows")]).one().wait()
            worker.wait_for_output("Could not exclude jobs of unknown tasks")
            send_command(store, "ACL", "SETUSER", "default", "+hset")
            assert quick.enqueue(place.path, 0).result(LIMIT_S) == 0
            assert worker.stop() == 0
        store.close_sync()
