"""SECURITY.md names existing tests, settings and pages, and other pages link to it."""

from __future__ import annotations

import re
from pathlib import Path

from windlass.settings import Settings

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "SECURITY.md").read_text()


def test_every_named_test_exists() -> None:
    named = re.findall(r"`(tests/[^`]+)`", TEXT)
    assert len(named) > 20
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_named_setting_exists() -> None:
    named = {name.lower() for name in re.findall(r"WINDLASS_([A-Z_]+)", TEXT)}
    assert named <= set(Settings.__struct_fields__)


def test_every_named_page_exists_and_pages_link_to_it() -> None:
    assert [page for page in re.findall(r"\]\((docs/[^)#]+)", TEXT) if not (ROOT / page).exists()] == []
    for page, link in (("README.md", "(SECURITY.md)"), ("docs/access.md", "(../SECURITY.md)")):
        assert link in (ROOT / page).read_text()
