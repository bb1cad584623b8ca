"""Every line that installs Windlass names our distributions: `windlass` on the package index is another project."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.house.source_tree import ROOT, relative, tracked_files

# `pip install windlass`, `windlass[s3]`, also with options and quotes between. Not `windlass-queue`, nor a file.
WRONG = re.compile(r"pip3? install\b[^\n`#]*[\s'\"]windlass(?![\w./-])|\bwindlass\[[a-z]")
TEXTS = {".md", ".py", ".toml", ".yaml", ".yml", ".sh", ".html", ".service", ""}
PAST = ("CHANGELOG.md", "docs/decisions/", "tests/installation/")  # what was so, and this test


def test_no_file_installs_the_project_of_others() -> None:
    found = [
        f"{relative(path)}: {line.strip()}"
        for path in tracked_files()
        if path.suffix in TEXTS and not relative(path).startswith(PAST)
        for line in path.read_text(errors="replace").splitlines()
        if WRONG.search(line)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("line", "is_wrong"),
    [
        ("pip install windlass", True),
        ("RUN pip install --quiet 'windlass[s3]'", True),
        ("the extra `windlass[kafka]`", True),
        ("pip install windlass-queue", False),
        ("pip install 'windlass-queue[django]'", False),
        ("pip install windlass-queue-client", False),
    ],
)
def test_the_pattern_knows_right_and_wrong_lines(line: str, is_wrong: bool) -> None:
    assert bool(WRONG.search(line)) is is_wrong


@pytest.mark.parametrize("document", ["README.md", "docs/install.md", "docs/tutorial.md"])
def test_the_first_documents_say_how_to_install(document: str) -> None:
    assert "pip install windlass-queue" in Path(ROOT / document).read_text()
