"""Durations and instants in the SDK. Numbers are seconds, as in the rest of Python; instants need a time zone."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TypeAlias

from windlass.core.errors import BadInput
from windlass.core.text.durations import parse_duration_ms
from windlass.core.validation.bounds import DURATION_MAX

Duration: TypeAlias = int | float | str | timedelta


def duration_ms(what: str, value: Duration) -> int:
    if isinstance(value, timedelta):
        value = value.total_seconds()
    elif isinstance(value, str):
        return parse_duration_ms(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= DURATION_MAX / 1000:
        raise BadInput(f"{what} must be a duration: 30 or 0.5 (seconds), '30s', '10m', or a timedelta; not {value!r}.")
    return round(value * 1000)


def instant_ms(what: str, value: datetime) -> int:
    if not isinstance(value, datetime):
        raise BadInput(f"{what} must be a datetime, not {type(value).__name__}.")
    if value.tzinfo is None:
        raise BadInput(f"{what} has no time zone: give it one, e.g. datetime.now(timezone.utc).")
    return round(value.timestamp() * 1000)
