"""Template filters that format numbers, sizes, durations and instants."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup, escape

from windlass.core.text.control_characters import escape_control
from windlass.core.text.durations import format_duration

NARROW = "\u202f"  # narrow space between a number and its unit, and between thousands
_STEPS = ((86_400_000, "d", 3_600_000, "h"), (3_600_000, "h", 60_000, "m"), (60_000, "m", 1000, "s"))
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB")
_SHORT = ((10**9, "G"), (10**6, "M"), (10**3, "k"))
_INSTANT = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC)")
_YEAR_10000_MS = 253_402_300_800_000


def count(number: int | None) -> str:
    return "–" if number is None else f"{number:,}".replace(",", NARROW)


def short(number: float) -> str:
    """Format in at most five characters, for axes and small places: 12.3k."""
    for step, unit in _SHORT:
        if abs(number) >= step:
            scaled = number / step
            return f"{scaled:.0f}{unit}" if abs(scaled) >= 100 or scaled == int(scaled) else f"{scaled:.1f}{unit}"
    return f"{number:.0f}" if number == int(number) or number >= 100 else f"{number:.1f}"


def span(duration_ms: float | None) -> str:
    """Format a duration with at most two units: 2 h 5 m, 3.2 s, 18 ms."""
    if duration_ms is None:
        return "–"
    for step, unit, less, smaller in _STEPS:
        if duration_ms >= step:
            whole, rest = divmod(int(duration_ms), step)
            rest //= less
            return f"{whole}{NARROW}{unit}" + (f" {rest}{NARROW}{smaller}" if rest else "")
    if duration_ms >= 1000:
        return f"{duration_ms / 1000:.1f}".removesuffix(".0") + f"{NARROW}s"
    return f"{duration_ms:.0f}{NARROW}ms"


def size(number: int | None) -> str:
    if number is None:
        return "–"
    scaled, unit = float(number), 0
    while scaled >= 1024 and unit < len(_SIZES) - 1:
        scaled, unit = scaled / 1024, unit + 1
    return f"{scaled:.1f}{NARROW}{_SIZES[unit]}" if unit and scaled < 100 else f"{scaled:.0f}{NARROW}{_SIZES[unit]}"


def percent(part: float, whole: float) -> str:
    return "–" if not whole else f"{100 * part / whole:.1f}{NARROW}%"


def _instant(at_ms: int) -> datetime:
    return datetime.fromtimestamp(min(max(at_ms, 0), _YEAR_10000_MS - 1) / 1000, UTC)


def when(at_ms: int | None) -> Markup:
    """Format an instant. A script rewrites it in the viewer's time zone."""
    if not at_ms:
        return Markup("–")
    at = _instant(at_ms)
    return Markup('<time datetime="{}" data-at="{}" title="{}">{}</time>').format(
        at.isoformat(timespec="milliseconds"), at_ms, f"{at:%Y-%m-%d %H:%M:%S} UTC", f"{at:%Y-%m-%d %H:%M:%S}"
    )


def instants(text: str) -> Markup:
    """Mark the instants of a sentence up, so that a script rewrites them in the viewer's time zone."""
    parts = _INSTANT.split(text)  # every second part is an instant
    return Markup("").join(_mark_instant(part) if at % 2 else escape(part) for at, part in enumerate(parts))


def _mark_instant(text: str) -> Markup:
    try:
        at = datetime.strptime(text, "%Y-%m-%d %H:%M:%S UTC").replace(tzinfo=UTC)
    except ValueError:  # a text of a user that looks like an instant
        return escape(text)
    element = Markup('<time datetime="{}" data-at="{}" title="{}">{}</time>')
    return element.format(at.isoformat(), int(at.timestamp() * 1000), text, text)


def ago(at_ms: int | None, now_ms: int) -> Markup:
    """Format the time since an instant. A script keeps it current."""
    if not at_ms:
        return Markup("–")
    return _counting("ago", at_ms, f"{span(now_ms - at_ms)} ago" if now_ms - at_ms >= 1000 else "now")


def since(at_ms: int | None, now_ms: int) -> Markup:
    """Format the time since an instant without the word "ago": an age, or a duration so far."""
    return Markup("–") if not at_ms else _counting("since", at_ms, span(max(0, now_ms - at_ms)))


def until(at_ms: int | None, now_ms: int) -> Markup:
    """Format the time until an instant. A script keeps it current."""
    if not at_ms:
        return Markup("–")
    return _counting("until", at_ms, f"in {span(at_ms - now_ms)}" if at_ms > now_ms else "now")


def _counting(kind: str, at_ms: int, text: str) -> Markup:
    at = _instant(at_ms)
    element = Markup('<time datetime="{}" data-{}="{}" title="{}">{}</time>')
    return element.format(at.isoformat(timespec="milliseconds"), kind, at_ms, f"{at:%Y-%m-%d %H:%M:%S} UTC", text)


def prose(text: str) -> Markup:
    """Show text between backticks as code."""
    parts = escape_control(text).split("`")
    return Markup("").join(Markup("<code>{}</code>").format(part) if at % 2 else part for at, part in enumerate(parts))


FILTERS: dict[str, Callable[..., Any]] = {
    "count": count,
    "short": short,
    "span": span,
    "duration": format_duration,
    "size": size,
    "percent": percent,
    "when": when,
    "instants": instants,
    "ago": ago,
    "since": since,
    "until": until,
    "prose": prose,
}
