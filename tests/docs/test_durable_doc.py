"""Tutorial, examples and limits of docs/durable.md, with real workers that are killed where the tutorial says so."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import windlass
from tests.docs.console_session import fences
from tests.docs.tutorial_reader import TutorialReader
from tests.sdk.conftest import app, engine
from tests.sdk.small_project import run_pytest
from tests.support.engine_process import EngineProcess
from windlass import Windlass, Worker
from windlass.core import durable as bounds

__all__ = ["app", "engine"]

DOCUMENT = (Path(__file__).parents[2] / "docs" / "durable.md").read_text()
SECTIONS = re.split(r"^## ", DOCUMENT, flags=re.MULTILINE)
RESULT = "  # → "


def section(title: str) -> str:
    (found,) = [part for part in SECTIONS if part.startswith(f"{title}\n")]
    return found


def file_block(name: str) -> str:
    (found,) = re.findall(rf"^```python\n# {name}\n(.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)
    return str(found)


# Tutorial


@pytest.fixture
def tutorial(engine: EngineProcess, tmp_path: Path) -> Iterator[TutorialReader]:
    environment = {
        "WINDLASS_URL": engine.unix_url,
        "WINDLASS_NAMESPACE": f"durable{os.getpid()}",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    reader = TutorialReader(tmp_path, environment)
    yield reader
    reader.close()


def test_the_tutorial(tutorial: TutorialReader, tmp_path: Path) -> None:
    code = file_block("orders.py").replace("asyncio.sleep(20)", "asyncio.sleep(5)").replace('"15s"', '"10s"')
    (tmp_path / "orders.py").write_text(code)
    tutorial.run(section("Tutorial: an order"))
    assert tutorial.output.count("charging order 7") == 1
    assert tutorial.output.count("printing the label") == 2


# Reference


@contextlib.contextmanager
def at_work(app: Windlass) -> Iterator[None]:
    """Run a worker in a thread: the examples wait without an event loop."""
    is_over = threading.Event()

    async def work() -> None:
        worker = Worker(app, concurrency=4)
        running = asyncio.create_task(worker.run())
        await worker.wait_until_ready()
        await asyncio.to_thread(is_over.wait)
        worker.stop()
        await running
        await app.aclose()

    thread = threading.Thread(target=lambda: asyncio.run(work()), daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def run_block(block: str, names: dict[str, Any]) -> int:
    """Run an example and compare the values that it shows. Returns their number."""
    waiting: list[str] = []
    checked = 0
    for line in block.splitlines():
        expression, mark, expected = line.partition(RESULT)
        if not mark:
            waiting.append(line)
            continue
        execute(waiting, names)
        assert repr(eval(expression, names)) == expected, line  # noqa: S307
        waiting, checked = [], checked + 1
    execute(waiting, names)
    return checked


def execute(lines: list[str], names: dict[str, Any]) -> None:
    """Run lines as their own module would: without the `__future__` imports of this one."""
    exec(compile("\n".join(lines), "example", "exec", dont_inherit=True), names)  # noqa: S102


def test_the_examples_of_the_reference(app: Windlass, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windlass, "Windlass", lambda: app, raising=False)
    names: dict[str, Any] = {"__name__": "example"}
    blocks = [fence.content for fence in fences(DOCUMENT) if fence.language == "python"]
    first, *others = [block for block in blocks if not block.startswith("# ")]
    run_block(first, names)
    with at_work(app):
        assert sum(run_block(block, names) for block in others) >= 13


# Databases


STOCK = """
import sqlite3
from stock import app, pack

with sqlite3.connect("stock.db") as database:
    database.execute("CREATE TABLE reserved (number)")
    database.execute("CREATE TABLE packed (number)")

def count(table):
    return sqlite3.connect("stock.db").execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0]

with app.testing() as t:
    job = pack.enqueue(7)
    t.run_all()
    print(t.jobs()[0].state, count("reserved"), count("packed"))
    t.advance("1d")
    t.run_all()
    print(job.result(), count("reserved"), count("packed"))
"""
DJANGO = """
import django
from django.conf import settings

settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.db"}}, USE_TZ=True)
django.setup()
from django.db import connection
from tasks import app, right, wrong
from windlass import JobFailed

connection.cursor().execute("CREATE TABLE reserved (number)")

def count():
    cursor = connection.cursor()
    cursor.execute("SELECT COUNT(*) FROM reserved")
    return cursor.fetchone()[0]

with app.testing() as t:
    good, bad = right.enqueue(7), wrong.enqueue(8)
    t.run_all()
    print(good.result(), count())
    try:
        bad.result()
    except JobFailed as failure:
        print(failure.type, "atomic" in failure.message)
"""


@pytest.mark.parametrize(
    ("name", "program", "printed"),
    [
        ("stock.py", STOCK, ["suspended 1 0", "None 1 1"]),
        ("tasks.py", DJANGO, ["None 1", "BadInput True"]),
    ],
)
def test_databases(name: str, program: str, printed: list[str], tmp_path: Path) -> None:
    (tmp_path / name).write_text(file_block(name))
    environment = {key: value for key, value in os.environ.items() if not key.startswith("WINDLASS_")}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == printed, done.stderr


# Testing, limits


def test_the_examples_of_tests_pass(tmp_path: Path) -> None:
    files = {name: file_block(f"{name}.py") for name in ("orders", "test_orders")}
    expected = files["test_orders"].count("def test_")
    assert f"{expected} passed" in run_pytest(tmp_path, **files)


def test_the_limits_are_those_of_the_engine() -> None:
    rows = re.findall(r"^\| ([^|]+) \| ([\d,]+ ?\w*) \|", section("Limits"), re.MULTILINE)
    sizes = {"": 1, "bytes": 1, "KiB": 1024, "MiB": 1024**2}
    numbers = [(int(number.replace(",", "")), unit) for number, _, unit in (bound.partition(" ") for _, bound in rows)]
    assert [number * sizes[unit] for number, unit in numbers] == [
        bounds.STEPS_MAX,
        bounds.STEP_VALUE_MAX,
        bounds.STEPS_BYTES_MAX,
        bounds.STEP_NAME_MAX,
        bounds.SUSPENSIONS_MAX,
        bounds.WAITS_MAX,
        bounds.CHILDREN_MAX,
        bounds.SIGNALS_MAX,
        bounds.SIGNAL_VALUE_MAX,
        bounds.SCHEMA_MAX,
        bounds.STREAM_VALUE_MAX,
        bounds.STREAM_VALUES_MAX,
        bounds.STREAM_BYTES_MAX,
    ]
