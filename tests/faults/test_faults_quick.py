"""A short run of `python -m faults`: mixed faults on one engine with servers, producers and workers break no guarantee.

Each run has another plan; a failure shows how to repeat it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.profiles import IS_DEEP

ROOT = Path(__file__).resolve().parent.parent.parent
LIMIT_S = 900  # the run ends long before, with its findings


@pytest.mark.parametrize("scenario", ["standalone", *(["scripts"] if IS_DEEP else [])])
def test_every_guarantee_is_kept(scenario: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "faults", "--quick", "--scenario", scenario, "--folder", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-3000:]}"
    assert "0 lost, 0 findings" in done.stdout
