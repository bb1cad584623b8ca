"""Examples of docs/testing.md, run as a small project."""

from __future__ import annotations

import re
from pathlib import Path

from tests.sdk.small_project import run_pytest

DOCUMENT = Path(__file__).parents[2] / "docs" / "testing.md"


def test_the_examples_pass(tmp_path: Path) -> None:
    text = DOCUMENT.read_text()
    blocks = re.findall(r"^```python\n# (\w+)\.py\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == text.count("```python")
    expected = sum(code.count("def test_") for _, code in blocks)
    assert f"{expected} passed" in run_pytest(tmp_path, **dict(blocks))
