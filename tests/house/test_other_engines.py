"""Only the named tests are left out on the second engine, and only the named tests run on the third."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.engine_process import EngineProcess
from tests.support.other_engines import LEFT_TO_DEEP_RUNS, RUN_BY_SCRIPTS, is_left_to_deep_runs
from tests.support.profiles import IS_DEEP

TESTS = Path(__file__).parents[1]
FILE = Path(__file__).name


def found_files(name: str) -> list[Path]:
    return [path for folder in ("service", "store", "house") for path in (TESTS / folder).rglob(name)]


@pytest.mark.parametrize("named", LEFT_TO_DEEP_RUNS)
def test_every_named_test_exists(named: str) -> None:
    file, _, function = named.partition("::")
    (found,) = found_files(file)
    source = found.read_text()
    assert f"def {function}(" in source or not function


@pytest.mark.parametrize("file", sorted(RUN_BY_SCRIPTS))
def test_every_file_that_runs_by_scripts_exists(file: str) -> None:
    assert len(found_files(file)) == 1


def test_other_tests_run_on_both_engines(engine: EngineProcess, request: pytest.FixtureRequest) -> None:
    assert not is_left_to_deep_runs(request.node)


def test_a_named_test_runs_on_one_engine(
    engine: EngineProcess, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(LEFT_TO_DEEP_RUNS, f"{FILE}::{request.node.originalname}", "for this test")
    is_other = request.node.callspec.params["engine"] != "valkey"
    assert is_left_to_deep_runs(request.node) is (is_other and not IS_DEEP)


def test_a_file_that_is_not_named_does_not_run_by_scripts(
    engine: EngineProcess, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.support.other_engines.RUN_BY_SCRIPTS", RUN_BY_SCRIPTS - {FILE})
    is_third = request.node.callspec.params["engine"] == "scripts"
    assert is_left_to_deep_runs(request.node) is (is_third and not IS_DEEP)
