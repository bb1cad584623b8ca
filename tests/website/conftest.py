"""The built site, once for each test process."""

from __future__ import annotations

from pathlib import Path

import pytest

from website.build import build
from website.repository import ROOT

TOOL = ROOT / ".site" / "venv" / "bin" / "zensical"


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the site. The build is strict: a warning fails the tests."""
    assert TOOL.exists(), "Zensical is not installed; `make test` or `make site` installs it"
    return build(tmp_path_factory.mktemp("site"), TOOL)
