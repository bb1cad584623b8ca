"""Durations as people write them: 200ms, 30s, 10m, 1h, 7d."""

from __future__ import annotations

import re

from windlass.core.errors import BadInput

INSTANT_MAX = 2**47  # year 6429; leaves room for a lease added to it
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DIGITS_MAX = 30  # of the number: longer than any valid duration, and a float still holds it
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", re.ASCII)


def parse_duration_ms(text: str) -> int:
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise BadInput(f"{text!r} is not a duration; write 200ms, 30s, 10m, 1h or 7d.")
    if len(found[1]) > _DIGITS_MAX:
        raise BadInput(f"{text[:20]}… is longer than any duration can be; write 200ms, 30s, 10m, 1h or 7d.")
    return int(float(found[1]) * _UNITS_MS[found[2]])


def format_duration(duration_ms: int) -> str:
    """Format a duration in the largest unit that gives a whole number."""
    for unit in ("d", "h", "m", "s"):
        if duration_ms and duration_ms % _UNITS_MS[unit] == 0:
            return f"{duration_ms // _UNITS_MS[unit]}{unit}"
    return f"{duration_ms}ms"
