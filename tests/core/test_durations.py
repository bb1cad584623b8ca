from __future__ import annotations

import pytest

from windlass.core.errors import BadInput
from windlass.core.text.durations import format_duration, parse_duration_ms


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [("200ms", 200), ("30s", 30_000), (" 10m ", 600_000), ("1h", 3_600_000), ("7d", 604_800_000), ("1.5s", 1_500)],
)
def test_what_people_write(text: str, duration_ms: int) -> None:
    assert parse_duration_ms(text) == duration_ms
    assert parse_duration_ms(format_duration(duration_ms)) == duration_ms


@pytest.mark.parametrize("text", ["", "30", "s", "-1s", "1 s", "1e3s", "1y", "1s2m", "٣s"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="is not a duration"):
        parse_duration_ms(text)
