"""The planted bugs of `make mutants` still fit the source. That they are found is the work of tools/mutants.py."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATCHES = sorted((ROOT / "mutants").glob("*.patch"))


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.stem)
def test_the_patch_applies(patch: Path) -> None:
    tried = subprocess.run(
        ["git", "apply", "--check", str(patch)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert tried.returncode == 0, f"the source has changed: make {patch.name} anew\n{tried.stderr}"


def test_there_are_mutants() -> None:
    assert len(PATCHES) >= 14
