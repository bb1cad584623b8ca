"""The patches of `make mutants` still apply to the source. tools/mutants.py checks that tests find them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATCHES = sorted((ROOT / "mutants").glob("*.patch"))


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.stem)
def test_the_patch_applies(patch: Path) -> None:
    done = subprocess.run(
        ["git", "apply", "--check", str(patch)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"the source has changed: update {patch.name}\n{done.stderr}"


def test_there_are_mutants() -> None:
    assert len(PATCHES) >= 14
