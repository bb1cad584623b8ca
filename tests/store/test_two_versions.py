"""Two versions of Windlass at work on one engine: each has a function library of its own, and keeps it as long as it
needs it. The earlier version is a copy of the sources with a change in a Lua file, in processes of its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import windlass as present_version
from tests.support.engine_process import EngineProcess
from tests.support.namespace import send_command
from tests.support.worker_process import WorkerProcess
from windlass import Windlass
from windlass.core.diagnosis import Finding
from windlass.store.scripts import library
from windlass.store.store import Store

RESULT_LIMIT_S = 60.0
JOBS = 4
PRESENT = Path(present_version.__file__)
PROGRAM = """
import sys
import windlass
from windlass import Windlass

app = Windlass()

@app.task(name="where", keep_result="1h")
def where() -> str:
    return windlass.__file__

if __name__ == "__main__":
    queue, count = sys.argv[1], int(sys.argv[2])
    print(*(where.using(queue=queue).enqueue().id for _ in range(count)))
"""


class Programs(NamedTuple):
    engine: EngineProcess
    directory: Path
    earlier: Path  # sources of the earlier version

    def environment(self, source: Path | None) -> dict[str, str]:
        return {"WINDLASS_URL": self.engine.unix_url} | ({"PYTHONPATH": str(source)} if source else {})

    @contextlib.contextmanager
    def worker(self, queue: str, source: Path | None) -> Iterator[WorkerProcess]:
        options = ("program:app", "--queues", queue, "--no-supervisor")
        worker = WorkerProcess(*options, directory=self.directory, environment=self.environment(source))
        try:
            yield worker
        finally:
            worker.remove()

    def enqueue_earlier(self, queue: str) -> list[str]:
        """Enqueue jobs with a program of the earlier version. Return their ids."""
        done = subprocess.run(
            [sys.executable, "program.py", queue, str(JOBS)], cwd=self.directory, check=True, text=True,
            env=os.environ | self.environment(self.earlier), stdout=subprocess.PIPE, timeout=RESULT_LIMIT_S,
        )  # fmt: skip
        return done.stdout.split()

    @property
    def earlier_module(self) -> str:
        return str(self.earlier / "windlass" / "__init__.py")


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    earlier = tmp_path / "earlier"
    shutil.copytree(PRESENT.parent, earlier / "windlass", ignore=shutil.ignore_patterns("__pycache__"))
    with (earlier / "windlass/store/lua/lib/glob.lua").open("a") as file:
        file.write("-- another version\n")
    (tmp_path / "program.py").write_text(PROGRAM)
    with EngineProcess("valkey") as engine:
        yield Programs(engine, tmp_path, earlier)


@pytest.fixture
def app(programs: Programs) -> Iterator[Windlass]:
    app = Windlass(programs.engine.unix_url)
    yield app
    app.close()


def enqueue(app: Windlass, queue: str) -> list[str]:
    """Enqueue jobs with the present version."""

    @app.task(name="where", keep_result="1h")
    def where() -> str:
        raise AssertionError("this process runs no jobs")

    return [where.using(queue=queue).enqueue().id for _ in range(JOBS)]


def libraries(store: Store) -> set[str]:
    found = send_command(store, "FUNCTION", "LIST", "LIBRARYNAME", "windlass_*")
    return {entry[entry.index(b"library_name") + 1].decode() for entry in found}


def results(app: Windlass, ids: list[str]) -> set[object]:
    return {app.job(job_id).result(timeout=RESULT_LIMIT_S) for job_id in ids}


def old_libraries(app: Windlass) -> list[Finding]:
    return [finding for finding in app.service.doctor().wait().findings if finding.code == "old_libraries"]


def test_each_version_calls_its_own_functions_as_long_as_it_runs(programs: Programs, app: Windlass) -> None:
    store = app.service.store
    with programs.worker("old", programs.earlier) as earlier, programs.worker("new", None) as present:
        earlier.wait_ready()
        present.wait_ready()
        # Each version enqueues for the other's waiting worker, so both versions read what the other has written.
        for_old, for_new = enqueue(app, "old"), programs.enqueue_earlier("new")
        assert results(app, for_old) == {programs.earlier_module}
        assert results(app, for_new) == {str(PRESENT)}
        (other,) = libraries(store) - {library().name}
        # Removed too early: the earlier program loads it again, and loses nothing.
        send_command(store, "FUNCTION", "DELETE", other)
        assert results(app, enqueue(app, "old")) == {programs.earlier_module}
        assert libraries(store) == {library().name, other}
        assert earlier.stop() == 0
        (finding,) = old_libraries(app)
        assert finding.examples == (other,)
        send_command(store, "FUNCTION", "DELETE", other)
        assert old_libraries(app) == []
        assert results(app, enqueue(app, "new")) == {str(PRESENT)}
        assert libraries(store) == {library().name}
