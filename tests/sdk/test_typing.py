"""Type checking of calls: right calls are accepted with their result types, wrong calls are refused."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

FILES = Path(__file__).parent / "typing"
MARK = re.compile(r"  # error: ([a-z-]+(?:, [a-z-]+)*)$")
FOUND = re.compile(r"^.*?(\w+\.py):(\d+): error: .*\[([a-z-]+)\]$")
Errors = dict[tuple[str, int], set[str]]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Errors:
    """Run the type checker as a user would: it learns from the package's marker alone that the package is typed."""
    cache = tmp_path_factory.mktemp("mypy")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(cache), "--config-file="]
    command += ["--no-error-summary", *(path.name for path in sorted(FILES.glob("*.py")))]
    done = subprocess.run(command, cwd=FILES, capture_output=True, text=True, check=False, timeout=300)
    errors: Errors = {}
    for line in done.stdout.splitlines():
        if match := FOUND.match(line):
            errors.setdefault((match[1], int(match[2])), set()).add(match[3])
        else:
            assert ": note: " in line, line
    assert done.stderr == ""
    return errors


def marked(name: str) -> Errors:
    lines = (FILES / name).read_text().splitlines()
    matches = [(number, MARK.search(line)) for number, line in enumerate(lines, 1)]
    return {(name, number): set(match[1].split(", ")) for number, match in matches if match}


def test_right_calls_are_accepted(found: Errors) -> None:
    assert {place: codes for place, codes in found.items() if place[0] == "right.py"} == {}


@pytest.mark.parametrize(
    ("name", "at_least"), [("wrong.py", 60), ("flows.py", 20), ("extras.py", 10), ("durable.py", 12), ("streams.py", 3)]
)
def test_wrong_calls_are_refused_and_no_others(found: Errors, name: str, at_least: int) -> None:
    expected = marked(name)
    assert len(expected) >= at_least
    assert {place: codes for place, codes in found.items() if place[0] == name} == expected
