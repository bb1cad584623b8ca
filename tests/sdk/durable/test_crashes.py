"""Durable jobs whose worker process is killed, in all pools."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sdk.apps import durable_app
from tests.support.engine_process import EngineProcess
from tests.support.worker_process import JobNotes, WorkerStarter, wait_until, worker_starter
from windlass.service import Service
from windlass.store.store import Store

APPS = Path(__file__).parents[1] / "apps"


@pytest.fixture
def connected(store: Store) -> Service:
    durable_app.app.connect(store)
    return Service(store)


@pytest.fixture
def workers(engine: EngineProcess, store: Store, connected: Service) -> Iterator[WorkerStarter]:
    with worker_starter("durable_app:app", engine.unix_url, store.namespace, APPS) as found:
        yield found


def words(place: JobNotes) -> list[str]:
    return [word for word, _, _ in place.notes()]


@pytest.mark.parametrize("name", ["in_loop", "in_thread", "in_process", "in_process_loop"])
def test_a_killed_worker_repeats_no_stored_step(workers: WorkerStarter, place: JobNotes, name: str) -> None:
    handle = getattr(durable_app, name).enqueue(place.path)
    first = workers.start("--no-supervisor")
    wait_until(lambda: "waits" in words(place), "the first worker runs the third step")
    first.kill()
    workers.start()
    wait_until(lambda: words(place).count("waits") == 2, "another worker runs the third step again")
    place.go()
    wait_until(lambda: handle.state == "suspended" and "approval" in handle.steps().waits, "the job waits")
    handle.signal("approval", "yes")
    assert handle.result(60) == ["first", "second", "yes", 2]
    assert words(place) == ["first", "second", "waits", "waits"]


@pytest.mark.parametrize("name", ["tell_in_loop", "tell_in_thread", "tell_in_process", "tell_in_process_loop"])
def test_a_killed_worker_repeats_no_value_outside_of_steps(workers: WorkerStarter, place: JobNotes, name: str) -> None:
    handle = getattr(durable_app, name).enqueue(place.path)
    first = workers.start("--no-supervisor")
    wait_until(lambda: "waits" in words(place), "the first worker runs the step")
    first.kill()
    workers.start()
    wait_until(lambda: words(place).count("waits") == 2, "another worker runs the step again")
    place.go()
    found = ["|" if entry.is_new_attempt else entry.value for entry in handle.stream()]
    assert found == [0, 1, 2, "in a step", "|", "in a step", 3]
