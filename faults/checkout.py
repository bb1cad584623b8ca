"""The git checkout that this code belongs to."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT_S = 60.0


def run_git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, check=False, timeout=LIMIT_S)


def commit_of_code() -> str:
    """Return the commit that is checked out; empty outside of a checkout."""
    return run_git("rev-parse", "--short=12", "HEAD").stdout.decode().strip()
