"""Rollup of per-minute statistics to longer steps and over several queues."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from windlass.core.queue import Minute

from .histogram import sum_histograms

_COUNTED = tuple(field for field in Minute.__struct_fields__ if field not in ("at_ms", "waits", "runs"))


def merge_minutes(at_ms: int, minutes: Iterable[Minute]) -> Minute:
    """Return the sum of several minutes."""
    found = list(minutes)
    sums: dict[str, Any] = {field: sum(getattr(minute, field) for minute in found) for field in _COUNTED}
    return Minute(
        at_ms=at_ms,
        waits=sum_histograms(minute.waits for minute in found),
        runs=sum_histograms(minute.runs for minute in found),
        **sums,
    )


def roll_up(minutes: Iterable[Minute], step_ms: int) -> list[Minute]:
    """Return the minutes summed into steps of `step_ms`, in order. Steps without activity are left out."""
    steps: dict[int, list[Minute]] = {}
    for minute in minutes:
        steps.setdefault(minute.at_ms // step_ms * step_ms, []).append(minute)
    return [
        msgspec.structs.replace(parts[0], at_ms=at_ms) if len(parts) == 1 else merge_minutes(at_ms, parts)
        for at_ms, parts in sorted(steps.items())
    ]


def sum_queues(histories: Iterable[Iterable[Minute]]) -> list[Minute]:
    """Return the sum of several queues, step by step. Their steps must have the same length."""
    return roll_up((minute for history in histories for minute in history), 1)
