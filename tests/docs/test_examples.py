"""The examples of documents give the results that they show."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from windlass.service import Service

DOCUMENTS = Path(__file__).parents[2] / "docs"
RESULT = "  # → "


@pytest.mark.parametrize(
    ("document", "at_least"), [("schedules.md", 15), ("limits.md", 9), ("logs.md", 3), ("access.md", 7)]
)
def test_the_examples_give_their_results(service: Service, document: str, at_least: int) -> None:
    names: dict[str, Any] = {"service": service}
    checked = 0
    for block in re.findall(r"^```python\n(.*?)^```", (DOCUMENTS / document).read_text(), re.MULTILINE | re.DOTALL):
        waiting: list[str] = []
        for line in block.splitlines():
            expression, mark, expected = line.partition(RESULT)
            if not mark:
                waiting.append(line)
                continue
            exec("\n".join(waiting), names)  # noqa: S102
            assert repr(eval(expression, names)) == expected, line  # noqa: S307
            waiting, checked = [], checked + 1
        exec("\n".join(waiting), names)  # noqa: S102
    assert checked >= at_least
