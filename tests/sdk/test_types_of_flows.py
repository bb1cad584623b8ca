"""A type checker sees what fits into a flow, and what a flow returns."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

CHECKED = Path(__file__).with_name("typed_flows.py")
ROOT = Path(__file__).parents[2]


def test_right_lines_pass_and_wrong_ones_do_not() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context", CHECKED.name],
        cwd=CHECKED.parent,
        env={"MYPYPATH": str(ROOT / "src"), "MYPY_CACHE_DIR": str(ROOT / ".mypy_cache" / "typed")},
        capture_output=True,
        text=True,
        check=False,
    )
    found = {
        (int(line), code)
        for line, code in re.findall(rf"^{CHECKED.name}:(\d+): error: .*\[([a-z-]+)\]$", done.stdout, re.MULTILINE)
    }
    lines = enumerate(CHECKED.read_text().splitlines(), start=1)
    marked = {(at, line.rpartition("# wrong: ")[2]) for at, line in lines if "# wrong: " in line}
    assert found == marked, done.stdout + done.stderr
