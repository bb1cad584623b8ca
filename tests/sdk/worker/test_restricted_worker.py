"""Worker whose user may not load functions: it logs what is missing and continues after an admin has restored it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sdk.apps.fault_tasks import app, held_long
from tests.support.acl_user import create_restricted_user, send_command
from tests.support.console import run_with_settings
from tests.support.engine_process import EngineProcess
from tests.support.worker_process import LIMIT_S, JobNotes, count_finished, worker_starter
from windlass import Windlass
from windlass.core.errors import EngineNotPermitted
from windlass.service import Service
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store

HERE = Path(__file__).parents[1] / "apps"


@pytest.fixture(params=["valkey", "redis"])
def own_engine(request: pytest.FixtureRequest) -> Iterator[EngineProcess]:
    with EngineProcess(request.param) as engine:
        yield engine


def prepare(engine: EngineProcess) -> None:
    assert run_with_settings("engine", "prepare", "--url", engine.unix_url).code == 0


def test_a_worker_goes_on_after_function_flush(own_engine: EngineProcess, place: JobNotes) -> None:
    prepare(own_engine)
    url = create_restricted_user(own_engine)
    store = Store(parse_url(url))
    app.connect(store)
    with worker_starter("fault_tasks:app", url, "wl", HERE) as workers:
        worker = workers.start("-c", "4").wait_ready()
        handles = app.enqueue_many(held_long.call(place.path, number) for number in range(12))
        send_command(own_engine, "FUNCTION", "FLUSH")
        place.go()
        worker.wait_for_output("windlass engine prepare --url URL")
        with pytest.raises(EngineNotPermitted, match="windlass engine prepare"):
            held_long.enqueue(place.path, 99)
        prepare(own_engine)
        assert [handle.result(LIMIT_S) for handle in handles] == list(range(12))
        assert held_long.enqueue(place.path, 100).result(LIMIT_S) == 100
        assert count_finished(Service(store)) == 13
        assert worker.stop() == 0
        assert "NOPERM" not in worker.output
    store.close_sync()


def test_a_worker_that_lacks_a_right_says_so_and_ends(own_engine: EngineProcess) -> None:
    prepare(own_engine)
    with worker_starter("fault_tasks:app", create_restricted_user(own_engine, "-info"), "wl", HERE) as workers:
        worker = workers.start()
        assert worker.wait() == 1
    assert "The engine's user 'worker' may not call INFO (needed to check" in worker.output
    assert "Traceback" not in worker.output


def test_calls_of_an_application_raise_it(own_engine: EngineProcess) -> None:
    other = Windlass(create_restricted_user(own_engine, "-fcall"))

    @other.task
    def add(left: int, right: int) -> int:
        return left + right

    with pytest.raises(EngineNotPermitted, match="may not call FCALL"):
        add.enqueue(1, 2)
    other.close()


@pytest.mark.anyio
async def test_awaited_calls_of_an_application_raise_it(own_engine: EngineProcess) -> None:
    other = Windlass(create_restricted_user(own_engine, "-info"))

    @other.task
    def add(left: int, right: int) -> int:
        return left + right

    with pytest.raises(EngineNotPermitted, match="may not call INFO"):
        await add.aenqueue(1, 2)
    await other.aclose()
