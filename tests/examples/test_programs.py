"""Each program in examples/ prints its last lines, with a worker process running."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MARK = "# prints:\n"
PROGRAMS = sorted(path for path in EXAMPLES.glob("*.py") if MARK in path.read_text())


def test_every_example_is_tested() -> None:
    untested = {path.stem for path in EXAMPLES.glob("*.py")} - {path.stem for path in PROGRAMS}
    assert untested == {path.stem.removeprefix("test_") for path in Path(__file__).parent.glob("test_*_app.py")}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_prints_its_last_lines(worker: Any, program: Path) -> None:
    expected = program.read_text().partition(MARK)[2].replace("# ", "").strip()
    with worker(f"{program.stem}:app"):
        done = subprocess.run(
            [sys.executable, program.name], cwd=EXAMPLES, capture_output=True, text=True, timeout=120, check=False
        )
    assert (done.stdout.strip(), done.returncode) == (expected, 0), done.stderr
