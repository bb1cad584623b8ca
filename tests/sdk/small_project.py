"""A user's project in its own directory, tested by its own pytest process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def run_pytest(directory: Path, **files: str) -> str:
    for name, content in files.items():
        (directory / f"{name}.py").write_text(content)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "WINDLASS_"))}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", "--rootdir", "."]
    done = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    return done.stdout
