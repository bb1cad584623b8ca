"""Workers killed in the middle of flows: no job is lost, no child is spawned twice, results arrive."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sdk.apps import mortal_app
from tests.support.engine_process import EngineProcess
from windlass import Windlass
from windlass.store.store import Store

HERE = Path(__file__).parents[1] / "apps"
SECONDS = 60


@pytest.fixture
def mortal(store: Store) -> Iterator[Windlass]:
    mortal_app.app.connect(store)
    yield mortal_app.app
    mortal_app.app.close()


@pytest.fixture
def environment(engine: EngineProcess, store: Store, tmp_path: Path) -> dict[str, str]:
    return {
        "WINDLASS_URL": engine.unix_url,
        "WINDLASS_NAMESPACE": store.namespace,
        "MORTAL_NOTES": str(tmp_path),
    }


@contextlib.contextmanager
def kept_at_work(environment: dict[str, str]) -> Iterator[list[int]]:
    """Run a worker process and restart it whenever it dies. Yields the list of exit codes."""
    codes: list[int] = []
    is_over = threading.Event()
    alive: list[subprocess.Popen[bytes]] = []

    def keep() -> None:
        while not is_over.is_set() and len(codes) < 10:
            alive[:] = [subprocess.Popen([sys.executable, "mortal_app.py"], cwd=HERE, env=environment)]
            codes.append(alive[0].wait())

    thread = threading.Thread(target=keep)
    thread.start()
    try:
        yield codes
    finally:
        is_over.set()
        alive[0].kill()
        thread.join()


def noted(environment: dict[str, str]) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in Path(environment["MORTAL_NOTES"]).iterdir()}


def test_a_parent_that_dies_after_spawning_and_again_when_it_is_resumed(
    mortal: Windlass, environment: dict[str, str]
) -> None:
    handle = mortal_app.parent.enqueue([1, 2, 3])
    with kept_at_work(environment) as codes:
        assert handle.result(timeout=SECONDS) == 14
        assert codes == [-9, -9]
    assert noted(environment) == {"spawned": 2, "resumed": 2, "square 1": 1, "square 2": 1, "square 3": 1}


def test_a_step_that_dies_gets_the_result_again(mortal: Windlass, environment: dict[str, str]) -> None:
    handle = mortal_app.square.call(3).then(mortal_app.add, 4).enqueue()
    with kept_at_work(environment) as codes:
        assert handle.result(timeout=SECONDS) == 13
        assert codes == [-9]
    assert noted(environment) == {"square 3": 1, "add": 2}
