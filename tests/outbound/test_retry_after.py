"""Retry-After as origins of downloads and busy push workers send it."""

from __future__ import annotations

import pytest

from windlass.outbound.retry_after import retry_after_ms

NOW_S = 1_445_412_480.0  # Wed, 21 Oct 2015 07:28:00 GMT
MOST_MS = 3_600_000


@pytest.mark.parametrize(
    ("text", "delay_ms"),
    [
        ("0", 0),
        ("7", 7_000),
        (" 120 ", 120_000),
        ("3601", MOST_MS),
        ("9" * 5_000, MOST_MS),
        ("Wed, 21 Oct 2015 07:28:30 GMT", 30_000),
        ("Wed, 21 Oct 2015 07:27:00 GMT", 0),
        ("Wed, 21 Oct 2099 07:28:00 GMT", MOST_MS),
        ("", None),
        ("soon", None),
        ("-1", None),
        ("1.5", None),
        ("²", None),
        ("٣", None),
    ],
)
def test_the_header_is_seconds_or_a_date(text: str, delay_ms: int | None) -> None:
    assert retry_after_ms({"retry-after": text}, NOW_S, most_ms=MOST_MS) == delay_ms


def test_a_missing_header_asks_for_nothing() -> None:
    assert retry_after_ms({}, NOW_S, most_ms=MOST_MS) is None
