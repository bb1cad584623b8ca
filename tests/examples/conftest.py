"""Examples run as a reader runs them, on an engine of the tests."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.engine_process import EngineProcess

EXAMPLES = Path(__file__).parents[2] / "examples"
STOP_LIMIT_S = 60


@pytest.fixture(scope="session", params=["valkey"])
def engine(request: pytest.FixtureRequest) -> Iterator[Any]:
    with EngineProcess(request.param, config=("--save", "", "--appendonly", "no")) as process:
        yield process


@pytest.fixture
def deployment(engine: EngineProcess, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Deployment that `Windlass()` connects to, in this process and in its children."""
    monkeypatch.setenv("WINDLASS_URL", engine.unix_url)
    monkeypatch.setenv("WINDLASS_NAMESPACE", f"e{os.getpid()}-{abs(hash(request.node.nodeid)) % 10**9}")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    for example in EXAMPLES.glob("*.py"):  # another test may have imported it, with its own deployment
        monkeypatch.delitem(sys.modules, example.stem, raising=False)


@pytest.fixture
def worker(deployment: None) -> Callable[[str], contextlib.AbstractContextManager[None]]:
    """Start `windlass worker` for an example."""

    @contextlib.contextmanager
    def start(target: str) -> Iterator[None]:
        process = subprocess.Popen([sys.executable, "-m", "windlass", "worker", target], cwd=EXAMPLES)
        try:
            yield
        finally:
            process.terminate()
            assert process.wait(STOP_LIMIT_S) == 0

    return start
