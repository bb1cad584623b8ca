"""Links and pictures of documents are valid, every decision is in the index, and no file names a path of a machine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.house.source_tree import ROOT, relative, tracked_files
from website.links import SCHEME, links_of

DOCUMENTS = [path for path in tracked_files() if path.suffix == ".md"]
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
# Homes of users and of build machines. Written in two parts so that this file does not match itself.
MACHINE_PATH = re.compile(
    r"(?<![\w./~-])/(?:" + "|".join(("ro" + "ot", "ho" + "me", "Us" + "ers", "wo" + "rk")) + r")/[\w.]"
)
INDEX_ADDRESS = re.compile("index" + r"-url|/sim" + r"ple/")
TEXT_SUFFIXES = {".py", ".md", ".lua", ".toml", ".txt", ".json", ".js", ".html", ".css", ".patch", ".yaml", ".yml", ""}


# Files in which such a path is part of an example.
EXAMPLES = {relative(Path(__file__)), "tests/store/embedded/test_engine.py"}


def heading_anchors(text: str) -> set[str]:
    """Return the anchors that common renderers make of headings."""
    headings = re.findall(r"^#+ +(.+?) *$", FENCE.sub("", text), re.MULTILINE)
    plain = (re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("document", DOCUMENTS, ids=relative)
def test_links_lead_to_files_and_headings(document: Path) -> None:
    broken = []
    for link in links_of(document.read_text()):
        if SCHEME.match(link):
            continue
        file, _, anchor = link.partition("#")
        target = (document.parent / file).resolve() if file else document
        if not target.exists() or (
            anchor and target.suffix == ".md" and anchor not in heading_anchors(target.read_text())
        ):
            broken.append(link)
    assert broken == []


def test_every_decision_is_in_the_index() -> None:
    index = (ROOT / "docs" / "decisions" / "README.md").read_text()
    assert [path.name for path in DECISIONS if f"({path.name})" not in index] == []


def test_no_file_names_a_path_of_a_machine() -> None:
    found = [
        f"{relative(path)}:{number}"
        for path in tracked_files()
        if path.suffix in TEXT_SUFFIXES and relative(path) not in EXAMPLES
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if MACHINE_PATH.search(line) or INDEX_ADDRESS.search(line)
    ]
    assert found == []
