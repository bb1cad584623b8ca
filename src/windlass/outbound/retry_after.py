"""The header Retry-After, and dates of HTTP headers. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_DIGITS_MAX = 18  # of seconds; more are beyond any bound


def retry_after_ms(headers: Mapping[str, str], now_s: float, *, most_ms: int) -> int | None:
    """Return the delay that Retry-After asks for, in seconds or as a date, at most `most_ms`. None: the header is
    missing or invalid. `headers` finds names in any case, or has lower-case names."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return min(int(text[:_DIGITS_MAX]) * 1000, most_ms)
    date = parse_http_date(text)
    return None if date is None else min(max(0, round((date.timestamp() - now_s) * 1000)), most_ms)


def parse_http_date(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
