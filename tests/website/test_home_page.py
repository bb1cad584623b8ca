"""The home page: its session with a killed worker, its figures, and the colours that it shares with the dashboard."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.tutorial_reader import TutorialReader
from tests.sdk.conftest import engine
from tests.support.engine_process import EngineProcess
from website.figures import render
from website.repository import ROOT

__all__ = ["engine"]

PAGE = (ROOT / "docs" / "index.md").read_text()
VARIABLE = re.compile(r"^ *(--[\w-]+): ([^;]+);", re.MULTILINE)


@pytest.fixture
def reader(engine: EngineProcess, tmp_path: Path) -> Iterator[TutorialReader]:
    environment = {
        "WINDLASS_URL": engine.unix_url,
        "WINDLASS_NAMESPACE": f"home{os.getpid()}",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    reader = TutorialReader(tmp_path, environment)
    yield reader
    reader.close()


def test_the_killed_worker(reader: TutorialReader, tmp_path: Path) -> None:
    (code,) = re.findall(r"^```python\n# shop.py\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "shop.py").write_text(code.replace("asyncio.sleep(10)", "asyncio.sleep(3)").replace('"5s"', '"2s"'))
    reader.run(PAGE)
    assert reader.output.count("charging order 7") == 1
    assert reader.output.count("printing the label of order 7") == 2


def test_the_figures_are_those_of_the_benchmark() -> None:
    assert render(PAGE) == PAGE, "run `make docs`"


def test_the_colours_are_those_of_the_dashboard() -> None:
    """Compare the variables that both style sheets have, for light and for dark mode."""
    ours = (ROOT / "website" / "site.css").read_text().split('[data-md-color-scheme="slate"] {')
    theirs = dict(VARIABLE.findall((ROOT / "src/windlass/web/static/theme.css").read_text()))
    for mine, mode in zip(ours[:2], (0, 1), strict=True):
        dashboard = {
            name: value.removeprefix("light-dark(").removesuffix(")").split(", ")[mode]
            for name, value in theirs.items()
            if value.startswith("light-dark(#")
        }
        colours = {name: value for name, value in VARIABLE.findall(mine.partition(":root {")[0]) if "#" in value}
        assert len(colours) >= 15
        assert colours.items() <= dashboard.items()
