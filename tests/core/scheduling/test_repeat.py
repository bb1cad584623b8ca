"""Repeat rules: syntax, SQLite's results, and edge cases."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.core.errors import BadInput
from windlass.core.scheduling.repeat import is_same, parse, parse_modifiers
from windlass.core.text.durations import INSTANT_MAX


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1000


def after(rule: str, finished: str) -> str:
    found = parse(rule).next_at_ms(at("2000-01-01 00:00:00"), at("2001-01-01 00:00:00"), at(finished))
    assert found is not None
    return datetime.fromtimestamp(found / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


@pytest.mark.parametrize(
    ("rule", "finished", "expected"),
    [
        ("FINISHED, +1 MONTH", "2026-01-31 10:00:00", "2026-03-03 10:00:00"),
        ("FINISHED, +1 MONTH", "2024-01-31 10:00:00", "2024-03-02 10:00:00"),
        ("FINISHED, +1 YEAR", "2024-02-29 10:00:00", "2025-03-01 10:00:00"),
        ("FINISHED, -1 MONTH", "2026-03-31 10:00:00", "2026-03-03 10:00:00"),
        ("FINISHED, WEEKDAY 0", "2026-11-15 10:00:00", "2026-11-15 10:00:00"),  # a Sunday stays
        ("FINISHED, WEEKDAY 1", "2026-11-15 10:00:00", "2026-11-16 10:00:00"),
        ("FINISHED, WEEKDAY 6", "2026-11-15 10:00:00", "2026-11-21 10:00:00"),
        ("FINISHED, -90 SECONDS", "2026-11-15 10:00:00", "2026-11-15 09:58:30"),
        ("FINISHED, +12345678 SECONDS", "2026-11-15 10:00:00", "2027-04-07 07:21:18"),
        ("FINISHED, +999 DAYS", "2026-11-15 10:00:00", "2029-08-10 10:00:00"),
        ("FINISHED, START OF HOUR", "2026-11-15 10:59:59", "2026-11-15 10:00:00"),
        ("FINISHED, START OF DAY, +1 DAY", "2026-11-15 10:59:59", "2026-11-16 00:00:00"),
        ("FINISHED, +1 DAY, START OF MONTH", "2026-11-30 10:59:59", "2026-12-01 00:00:00"),
        ("FINISHED, START OF YEAR, +1 YEAR", "2026-11-30 10:59:59", "2027-01-01 00:00:00"),
        ("FINISHED, + 1 HOUR", "2026-11-30 10:59:59", "2026-11-30 11:59:59"),
        ("finished, +1 minute", "2026-11-30 10:59:59", "2026-11-30 11:00:59"),
        ("HOURLY", "2026-11-30 10:59:59", "2026-11-30 11:59:59"),
        ("daily", "2026-11-30 10:59:59", "2026-12-01 10:59:59"),
        ("Weekly", "2026-11-30 10:59:59", "2026-12-07 10:59:59"),
        ("  FINISHED,+1 DAYS,  -1 HOURS", "2026-11-30 10:00:00", "2026-12-01 09:00:00"),
        ("SCHEDULED, +1 DAY", "2026-11-30 10:00:00", "2000-01-02 00:00:00"),
        ("STARTED, +1 DAY", "2026-11-30 10:00:00", "2001-01-02 00:00:00"),
    ],
)
def test_what_a_rule_means(rule: str, finished: str, expected: str) -> None:
    assert after(rule, finished) == expected


def test_milliseconds_are_cut_off() -> None:
    assert parse("FINISHED, +1 SECOND").next_at_ms(0, 0, 1_999) == 2_000


def test_a_rule_is_kept_as_typed_and_compared_without_case() -> None:
    rule = parse("finished, +1 Day")
    assert rule.text == "finished, +1 Day"
    assert is_same(rule.text, "FINISHED, +1 DAY")
    assert not is_same(rule.text, "FINISHED, +2 DAY")


@pytest.mark.parametrize(
    "rule",
    [
        "", "FINISHED", "FINISHED,", "TOMORROW, +1 DAY", "+1 DAY", "HOURLY, +1 DAY", "FINISHED, 1 DAY",
        "FINISHED, +1  DAY", "FINISHED, +  1 DAY", "FINISHED, +1DAY", "FINISHED, +1000 DAYS",
        "FINISHED, +123456789 SECONDS", "FINISHED, +1.5 HOURS", "FINISHED, LOCALTIME", "FINISHED, UTC",
        "FINISHED, WEEKDAY 7", "FINISHED, START OF WEEK", "FINISHED, +1 WEEK", "FINISHED, +1 DAY,",
        "FINISHED, +١ DAY", "finiſhed, +1 DAY", "ﬁnished, +1 DAY",
        "FINISHED, +1 DAY\n", "FINISHED, '; SELECT 1", "FINISHED" + ", +1 DAY" * 40,
    ],
)  # fmt: skip
def test_what_is_no_rule(rule: str) -> None:
    with pytest.raises(BadInput, match="repeat rule"):
        parse(rule)


@pytest.mark.parametrize("rule", ["FINISHED, +999 YEARS, +999 YEARS, +999 YEARS, +999 YEARS, +999 YEARS"])
def test_beyond_what_can_be_represented(rule: str) -> None:
    assert parse(rule).next_at_ms(0, 0, at("2026-01-01 00:00:00")) is None
    assert parse("FINISHED, -999 YEARS").next_at_ms(0, 0, at("2026-01-01 00:00:00")) is None
    assert parse("FINISHED, +1 SECOND").next_at_ms(0, 0, INSTANT_MAX) is None
    # A step on the way may lie before 1970.
    assert parse("FINISHED, -60 YEARS, +60 YEARS").next_at_ms(0, 0, at("2026-01-01 00:00:00")) is not None


def test_modifiers_without_a_base() -> None:
    assert parse_modifiers("+1 HOUR").apply_ms(0) == 3_600_000
    assert parse_modifiers(" +1 day, start of day").apply_ms(1) == 86_400_000
    for text in ("", "FINISHED, +1 HOUR", "HOURLY"):
        with pytest.raises(BadInput):
            parse_modifiers(text)


offsets = st.builds(
    lambda sign, number, unit: f"{sign}{number} {unit}",
    st.sampled_from("+-"),
    st.integers(0, 999),
    st.sampled_from(("YEAR", "MONTHS", "DAYS", "HOUR", "MINUTES", "SECONDS")),
)
others = st.sampled_from(("START OF DAY", "START OF MONTH", "START OF YEAR", *(f"WEEKDAY {n}" for n in range(7))))


@settings(deadline=None)
@given(st.integers(0, INSTANT_MAX // 1000), st.lists(offsets | others, min_size=1, max_size=4))
def test_rules_mean_what_sqlite_says(finished_s: int, steps: list[str]) -> None:
    """SQLite applies all modifiers at once; this module applies them step by step, with the same result."""
    marks = ", ".join("?" * len(steps))
    connection = sqlite3.connect(":memory:")
    (found,) = connection.execute(f"SELECT strftime('%s', ?, 'unixepoch', {marks})", (finished_s, *steps)).fetchone()
    connection.close()
    expected = int(found) * 1000 if found is not None and 0 < int(found) * 1000 <= INSTANT_MAX else None
    assert parse(", ".join(["FINISHED", *steps])).next_at_ms(0, 0, finished_s * 1000 + 999) == expected


def test_rules_are_computed_in_any_thread() -> None:
    rule = parse("FINISHED, +1 MONTH")
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: rule.next_at_ms(0, 0, n * 86_400_000), range(500)))
    assert found == [rule.next_at_ms(0, 0, n * 86_400_000) for n in range(500)]
