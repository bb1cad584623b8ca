"""Fixtures for tests against real engines. One engine per session and kind; one namespace per test."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator

import pytest
from hypothesis import settings

from tests.support.engine_process import EngineProcess
from tests.support.other_engines import is_left_to_deep_runs
from tests.support.stores import discard, make_store
from windlass.sdk.connection import OVERRIDE
from windlass.service import Service
from windlass.store.store import Store

settings.register_profile("house", deadline=None)  # how long something takes is for benchmarks
settings.load_profile("house")


# The longest tests, so that no process waits for one of them at the end; and the tests of process tasks: one of them
# waited without end in two full runs, behind a thousand other tests in its process. The cause is not known.
FIRST = ("machine.py", "faults_quick.py", "process_tasks.py")


@pytest.hookimpl(trylast=True)  # when the items are in their order
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """`make test` runs a part of the tests on the second and third engine, `make test-deep` all of them. The longest
    tests come first, so that no process waits for one of them in the end."""
    items.sort(key=lambda item: not item.path.name.endswith(FIRST))
    left = [item for item in items if is_left_to_deep_runs(item)]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in set(left)]


def pytest_configure() -> None:
    """Let programs that tests start end by these signals.

    Below nohup or in the background of a script they would inherit that a signal is ignored, but no handler."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda number, frame: None)


@pytest.fixture(scope="session", autouse=True)
def _no_data_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What is kept by default is kept elsewhere while tests run, also by processes that they start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        yield


@pytest.fixture(autouse=True)
def _no_override_stays() -> Iterator[None]:
    """Commands that run in the process of a test may redirect applications, for their child processes, too."""
    yield
    os.environ.pop(OVERRIDE, None)


@pytest.fixture
def patient_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pages of the dashboard wait: a busy machine is no engine that does not answer."""
    monkeypatch.setattr("windlass.dashboard.routes.ENGINE_TIMEOUT_S", 30.0)
    for search in ("job_search", "signal_waits"):
        monkeypatch.setattr(f"windlass.dashboard.views.{search}.TIME_MAX_S", 30.0)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session", params=["valkey", "redis", "scripts"])
def engine(request: pytest.FixtureRequest) -> Iterator[EngineProcess]:
    """Valkey 9, Debian's Redis 7.0, and Valkey without functions. tests/support/other_engines.py says which tests the
    last two run in `make test`."""
    with EngineProcess(request.param, config=("--save", "", "--appendonly", "no")) as process:
        yield process


@pytest.fixture
def store(engine: EngineProcess) -> Iterator[Store]:
    store = make_store(engine)
    yield store
    discard(store)


@pytest.fixture
def divided_store(engine: EngineProcess) -> Iterator[Callable[[int], Store]]:
    """Makes stores of deployments with so many partitions."""
    with contextlib.ExitStack() as stack:

        def make(partitions: int) -> Store:
            store = make_store(engine, partitions=partitions)
            stack.callback(discard, store)
            store.open_sync()
            return store

        yield make


@pytest.fixture
def service(store: Store) -> Service:
    return Service(store)


@pytest.fixture
def target(engine: EngineProcess) -> Iterator[Service]:
    """Another namespace of the same engine."""
    store = make_store(engine)
    yield Service(store)
    discard(store)
