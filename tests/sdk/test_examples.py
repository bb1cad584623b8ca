"""Each program in examples/ does what its last lines say, with a worker process beside it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine_process import EngineProcess

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MARK = "# prints:\n"
PROGRAMS = sorted(path for path in EXAMPLES.glob("*.py") if MARK in path.read_text())


@contextlib.contextmanager
def worker(module: str, environment: dict[str, str]) -> Iterator[None]:
    command = [sys.executable, "-m", "windlass", "worker", f"{module}:app", "--grace", "1s"]
    with subprocess.Popen(command, cwd=EXAMPLES, env=environment) as process:
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def test_every_example_is_tested() -> None:
    untested = {path.name for path in EXAMPLES.glob("*.py")} - {path.name for path in PROGRAMS}
    assert untested <= {"fastapi_app.py"}  # tested with its own client


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_example(engine: EngineProcess, program: Path) -> None:
    environment = {**os.environ, "WINDLASS_URL": engine.unix_url, "WINDLASS_NAMESPACE": f"ex-{program.stem}"}
    expected = program.read_text().partition(MARK)[2].replace("# ", "").strip()
    with worker(program.stem, environment):
        ran = subprocess.run(
            [sys.executable, program.name],
            cwd=EXAMPLES,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert (ran.stdout.strip(), ran.returncode) == (expected, 0), ran.stderr
