"""Numbers, instants, names and lists in sentences for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from .durations import INSTANT_MAX

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = ((86_400_000, "day", "days"), (3_600_000, "h", "h"), (60_000, "min", "min"), (1_000, "s", "s"))
JUST_NOW_MS = 1_000
TEXT_MAX = 80
NAMED = 3  # items shown of a longer list


def humanize_duration(duration_ms: int) -> str:
    """Format an approximate duration: 850 ms, 12 s, 1 h 20 min, 3 days."""
    if duration_ms >= JUST_NOW_MS:
        duration_ms = round(duration_ms, -3)
    for at, (unit_ms, singular, plural) in enumerate(_UNITS):
        whole, rest_ms = divmod(duration_ms, unit_ms)
        if whole == 0:
            continue
        if whole > 1:
            return f"{round(duration_ms / unit_ms)} {plural}"
        smaller_ms, smaller_singular, smaller_plural = _UNITS[min(at + 1, len(_UNITS) - 1)]
        smaller = rest_ms // smaller_ms
        rest = f" {smaller} {smaller_singular if smaller == 1 else smaller_plural}" if smaller else ""
        return f"1 {singular}{rest}"
    return f"{duration_ms} ms"


def humanize_age(at_ms: int, now_ms: int) -> str:
    return f"{humanize_duration(now_ms - at_ms)} ago" if now_ms - at_ms >= JUST_NOW_MS else "just now"


def to_datetime(at_ms: int) -> datetime:
    """Return an instant for people. One outside of the calendar, as a broken server may send, becomes its edge."""
    return _EPOCH + timedelta(milliseconds=min(max(at_ms, 0), INSTANT_MAX))


def _format_utc(at_ms: int) -> str:
    return to_datetime(at_ms).strftime("%Y-%m-%d %H:%M:%S UTC")


def humanize_instant(at_ms: int, now_ms: int) -> str:
    """Format an instant with its distance: 2026-01-31 10:30:00 UTC (in 5 min)."""
    distance = f"in {humanize_duration(at_ms - now_ms)}" if at_ms > now_ms else humanize_age(at_ms, now_ms)
    return f"{_format_utc(at_ms)} ({distance})"


def humanize_since(at_ms: int, now_ms: int) -> str:
    """Format the start of a condition that lasts: 2026-01-31 10:30:00 UTC (for 5 min)."""
    return _format_utc(at_ms) + (f" (for {humanize_duration(now_ms - at_ms)})" if now_ms - at_ms >= JUST_NOW_MS else "")


def quote_text(text: str, most: int = TEXT_MAX) -> str:
    return f'"{shorten(text, most)}"'


def shorten(text: str, most: int = TEXT_MAX) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def pluralize(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def list_first(texts: Sequence[str], total: int) -> str:
    """Join the first texts of a list of `total` items: "a, b and 5 more"."""
    first = texts[:NAMED]
    more = total - len(first)
    if more > 0:
        return f"{', '.join(first)} and {more} more"
    return " and ".join([", ".join(first[:-1]), first[-1]] if len(first) > 1 else first)
