"""Wheels and source archives of both distributions in dist/ (`make dist`), checked with twine.

`python tools/build_distributions.py FOLDER` builds into another folder and leaves the check out."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from own_environment import install

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
META = ROOT / "distributions" / "windlass-queue"
ENVIRONMENT = ROOT / ".dist-tools"


def main(arguments: list[str]) -> int:
    if arguments:
        build(Path(arguments[0]).absolute())
        return 0
    shutil.rmtree(DIST, ignore_errors=True)
    build(DIST)
    if not install(ENVIRONMENT, "twine"):
        print("Cannot install twine, so dist/ was not checked: no package index is reachable.", file=sys.stderr)
        return 2
    return subprocess.run([ENVIRONMENT / "bin" / "twine", "check", "--strict", *DIST.iterdir()], check=False).returncode


def build(folder: Path) -> None:
    """Build both distributions into a folder, with the build backend of this environment."""
    _build(ROOT, folder)
    with tempfile.TemporaryDirectory() as copy:
        for file in (META / "pyproject.toml", ROOT / "README.md", ROOT / "LICENSE"):
            shutil.copy(file, copy)
        _build(Path(copy), folder)


def _build(project: Path, folder: Path) -> None:
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", folder], cwd=project, check=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
