"""Programs that check the files of `deploy/`. `make deploy-tools` installs them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
_TOOLS = ROOT / ".deploy-tools"
# Prometheus is unpacked here and not installed: the package would start a server on the machine.
_PROMETHEUS = _TOOLS / "prometheus" / "usr" / "bin"
LIMIT_S = 120.0


def prometheus_program(name: str) -> str:
    """Return the path of `prometheus` or `promtool`."""
    found = shutil.which(name) or shutil.which(name, path=str(_PROMETHEUS))
    assert found, f"{name} is missing; run `make deploy-tools`"
    return found


def python_program(name: str) -> Path:
    """Return the path of a program of the environment of `tests/deploy/requirements.txt`."""
    path = _TOOLS / "venv" / "bin" / name
    assert path.exists(), f"{name} is missing; run `make deploy-tools`"
    return path


def check(*command: str | Path, stdin: str | None = None) -> str:
    """Run a checker and return all its output. A failure shows what it found."""
    done = subprocess.run(command, check=False, input=stdin, capture_output=True, text=True, timeout=LIMIT_S, cwd=ROOT)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def refusal(*command: str | Path) -> str:
    """Run a checker that must fail, and return its output."""
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=LIMIT_S, cwd=ROOT)
    assert done.returncode != 0, done.stdout
    return done.stdout + done.stderr
