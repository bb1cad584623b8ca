"""The fixture `job_queue`, in its own project, run by its own pytest process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sdk.small_project import run_pytest

APP = """
from windlass import Windlass

app = Windlass("redis://127.0.0.1:1/0")

@app.task
async def add(a: int, b: int) -> int:
    return a + b
"""
TESTS = """
from datetime import UTC, datetime

import pytest
from shop import add, app


def test_sync(job_queue):
    t = job_queue(app)
    handle = add.using(delay="1h").enqueue(1, 2)
    t.advance("1h")
    assert t.run_all().finished == 1
    assert handle.result() == 3


def test_it_is_over_after_each_test(job_queue):
    assert not app.is_under_test
    t = job_queue(app, now=datetime(2031, 1, 1, tzinfo=UTC))
    assert (t.jobs(), t.now.year) == ([], 2031)


@pytest.mark.anyio
async def test_async(job_queue, anyio_backend):
    t = job_queue(app)
    handle = await add.aenqueue(1, 2)
    assert (await t.arun_all()).finished == 1
    assert await handle == 3


@pytest.fixture
def anyio_backend():
    return "asyncio"
"""
WITHOUT = """
import sys

def test_costs_nothing():
    loaded = {name for name in sys.modules if name.startswith("windlass.")}
    assert loaded == {"windlass.aliases", "windlass.sdk", "windlass.sdk.pytest_plugin"}
    assert not {"msgspec", "uvloop", "hiredis"} & set(sys.modules)
"""


def test_jobs_of_a_project_are_tested(tmp_path: Path) -> None:
    assert "3 passed" in run_pytest(tmp_path, shop=APP, test_shop=TESTS)


def test_it_costs_those_nothing_who_do_not_use_it(tmp_path: Path) -> None:
    assert "1 passed" in run_pytest(tmp_path, test_other=WITHOUT)


def test_it_is_known_to_pytest(pytestconfig: pytest.Config) -> None:
    assert pytestconfig.pluginmanager.has_plugin("windlass")
