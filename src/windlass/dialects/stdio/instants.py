"""Instants in the form of the processor: ISO 8601, UTC, with a Z."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from windlass.core.errors import BadInput


def parse_instant(text: str) -> int:
    """Parse an instant to milliseconds since 1970. Without an offset it is UTC."""
    try:
        instant = datetime.fromisoformat(text)
        if instant.tzinfo is None:
            instant = instant.replace(tzinfo=UTC)
        return int(instant.timestamp() * 1000)
    except (ValueError, OverflowError) as error:
        raise BadInput(f"{text[:40]!r} is not an instant; write 2026-01-31T12:00:00.000Z.") from error


def format_instant(at_ms: int) -> str:
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(at_ms // 1000))}.{at_ms % 1000:03}Z"
