"""Filter of a GetJob: several exact names, or a single GLOB."""

from __future__ import annotations

from windlass.core.errors import Refusal
from windlass.core.operations import Filter
from windlass.core.validation.takes import check_filter

from .record import DEFAULT_PRIORITY
from .refusals import CommandRefused


def filter_for_names(text: str, priority: int | None, hidden: bool) -> Filter:
    items = [item for part in text.split(",") if (item := part.lstrip(" "))]
    engine_priority = None if priority is None else DEFAULT_PRIORITY - priority
    if len(items) > 1:
        found = Filter(only=tuple(dict.fromkeys(items)), priority=engine_priority, hidden=hidden)
    else:
        found = Filter(glob="" if text == "*" else text, priority=engine_priority, hidden=hidden)
    try:
        check_filter(found)
    except Refusal:
        raise CommandRefused(402, "Malformed name") from None
    return found
