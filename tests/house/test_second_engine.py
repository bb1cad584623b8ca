"""Only the named tests are left out on the second engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.engine_process import EngineProcess
from tests.support.profiles import IS_DEEP
from tests.support.second_engine import LEFT_TO_DEEP_RUNS, is_left_to_deep_runs

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("named", LEFT_TO_DEEP_RUNS)
def test_every_named_test_exists(named: str) -> None:
    file, _, function = named.partition("::")
    (found,) = (path for folder in ("service", "store") for path in (TESTS / folder).rglob(file))
    source = found.read_text()
    assert f"def {function}(" in source or not function


def test_other_tests_run_on_both_engines(engine: EngineProcess, request: pytest.FixtureRequest) -> None:
    assert not is_left_to_deep_runs(request.node)


def test_a_named_test_runs_on_one_engine(
    engine: EngineProcess, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(LEFT_TO_DEEP_RUNS, f"{Path(__file__).name}::{request.node.originalname}", "for this test")
    is_second = request.node.callspec.params["engine"] == "redis"
    assert is_left_to_deep_runs(request.node) is (is_second and not IS_DEEP)
