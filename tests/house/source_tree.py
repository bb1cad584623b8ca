"""Tracked files of the checkout, for tests of the source itself."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "windlass"
CODE = ("src", "tests", "bench", "faults", "tools", "examples")


@cache
def tracked_files(*folders: str) -> tuple[Path, ...]:
    """Return the files that git tracks or would track below these folders, or in the whole checkout."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *folders]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return tuple(path for name in listed if (path := ROOT / name).is_file())


def python_files(*folders: str) -> Iterator[Path]:
    return (path for path in tracked_files(*folders) if path.suffix == ".py")


def lua_files() -> Iterator[Path]:
    return (path for path in tracked_files("src") if path.suffix == ".lua")


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()
