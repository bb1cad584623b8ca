"""Wheels of both distributions, built once per run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    command = [sys.executable, ROOT / "tools" / "build_distributions.py", folder]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return folder
