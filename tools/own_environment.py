"""Virtual environment of one tool, apart from the project's own: nothing of the tool reaches what we test."""

from __future__ import annotations

import subprocess
import venv
from pathlib import Path

WAIT_S = 600


def install(environment: Path, package: str) -> bool:
    """Install a package with its program of the same name, unless it is there. Return whether it is."""
    if (environment / "bin" / package).exists():
        return True
    venv.create(environment, with_pip=True)
    pip = [environment / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", package]
    return subprocess.run(pip, timeout=WAIT_S, check=False).returncode == 0
