"""SECURITY.md names tests, settings and pages that exist, and can be found."""

from __future__ import annotations

import re
from pathlib import Path

from windlass.settings import Settings

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "SECURITY.md").read_text()


def test_every_test_that_it_names_is_there() -> None:
    named = re.findall(r"`(tests/[^`]+)`", TEXT)
    assert len(named) > 20
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_setting_that_it_names_is_one() -> None:
    named = {name.lower() for name in re.findall(r"WINDLASS_([A-Z_]+)", TEXT)}
    assert named <= set(Settings.__struct_fields__)


def test_every_page_that_it_names_is_there_and_leads_to_it() -> None:
    assert [page for page in re.findall(r"\]\((docs/[^)#]+)", TEXT) if not (ROOT / page).exists()] == []
    for page, link in (("README.md", "(SECURITY.md)"), ("docs/access.md", "(../SECURITY.md)")):
        assert link in (ROOT / page).read_text()
