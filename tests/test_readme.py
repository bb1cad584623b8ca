"""What the README shows works as it stands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_first_job_of_the_readme_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    with tempfile.TemporaryDirectory(prefix="wl-") as directory:
        code = blocks[0].replace("/tmp/windlass-demo", directory)  # noqa: S108
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env={**os.environ}, check=False
        )
    assert done.returncode == 0, done.stderr
    assert "attempt 1" in done.stdout


def test_the_first_screen_names_the_two_commands() -> None:
    first_screen = "\n".join((ROOT / "README.md").read_text().splitlines()[:40])
    assert "make serve" in first_screen
    assert "make test" in first_screen
