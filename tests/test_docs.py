"""The examples of docs/schedules.md do what they say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from windlass.service import Service

DOCUMENT = Path(__file__).parents[1] / "docs" / "schedules.md"
RESULT = "  # → "


def test_the_examples_do_what_they_say(service: Service) -> None:
    names: dict[str, Any] = {"service": service}
    checked = 0
    for block in re.findall(r"^```python\n(.*?)^```", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL):
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
    assert checked > 15
