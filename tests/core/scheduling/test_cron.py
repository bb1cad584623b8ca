"""Cron expressions in time zones, including clock changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.core.errors import BadInput
from windlass.core.scheduling.cron import parse

MINUTE_MS = 60_000


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) * 1000


def following(expression: str, zone: str, start: str, count: int) -> list[str]:
    found, now = [], at(start)
    for _ in range(count):
        now = parse(expression, zone).following_ms(now) or 0
        found.append(datetime.fromtimestamp(now / 1000, ZoneInfo(zone)).isoformat(timespec="minutes"))
    return found


def test_the_usual() -> None:
    assert following("30 2 * * MON-FRI", "UTC", "2026-11-13T02:30+00:00", 2) == [
        "2026-11-16T02:30+00:00",
        "2026-11-17T02:30+00:00",
    ]
    assert parse("0 0 * * *", "Asia/Kolkata").following_ms(at("2026-11-13T00:00+05:30") - 1) == at(
        "2026-11-13T00:00+05:30"
    )
    assert parse("*/10 * * * * *", "UTC").following_ms(999) == 10_000


@pytest.mark.parametrize(
    ("zone", "expression", "start", "expected"),
    [
        # A fixed time that is jumped over happens when the clocks have jumped; once, also when two such times match.
        ("Europe/Berlin", "30 2 * * *", "2026-03-28T12:00+01:00", ["2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"]),
        (
            "Europe/Berlin",
            "0,30 2 * * *",
            "2026-03-29T00:00+01:00",
            ["2026-03-29T03:00+02:00", "2026-03-30T02:00+02:00"],
        ),
        (
            "America/New_York",
            "30 2 * * *",
            "2026-03-08T00:00-05:00",
            ["2026-03-08T03:00-04:00", "2026-03-09T02:30-04:00"],
        ),
        (
            "Australia/Lord_Howe",
            "15 2 * * *",
            "2026-10-03T12:00+10:30",
            ["2026-10-04T02:30+11:00", "2026-10-05T02:15+11:00"],
        ),
        ("Africa/Cairo", "0 0 * * *", "2026-04-23T12:00+02:00", ["2026-04-24T01:00+03:00", "2026-04-25T00:00+03:00"]),
        ("Pacific/Apia", "0 12 * * *", "2011-12-29T13:00-10:00", ["2011-12-31T00:00+14:00", "2011-12-31T12:00+14:00"]),
        # A fixed time that comes twice happens the first time.
        ("Europe/Berlin", "30 2 * * *", "2026-10-25T00:00+02:00", ["2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"]),
        (
            "America/New_York",
            "30 1 * * *",
            "2026-11-01T00:00-04:00",
            ["2026-11-01T01:30-04:00", "2026-11-02T01:30-05:00"],
        ),
        ("America/New_York", "30 1 * * *", "2026-11-01T01:10-05:00", ["2026-11-02T01:30-05:00"]),
        (
            "Australia/Lord_Howe",
            "45 1 * * *",
            "2026-04-05T00:00+11:00",
            ["2026-04-05T01:45+11:00", "2026-04-06T01:45+10:30"],
        ),
        # What has a star in its minute or hour follows the clock.
        (
            "Europe/Berlin",
            "*/30 2 * * *",
            "2026-03-28T12:00+01:00",
            ["2026-03-30T02:00+02:00", "2026-03-30T02:30+02:00"],
        ),
        (
            "Europe/Berlin",
            "*/30 2 * * *",
            "2026-10-25T02:00+02:00",
            ["2026-10-25T02:30+02:00", "2026-10-25T02:00+01:00"],
        ),
        ("Europe/Berlin", "15 * * * *", "2026-10-25T02:15+02:00", ["2026-10-25T02:15+01:00", "2026-10-25T03:15+01:00"]),
        ("Australia/Lord_Howe", "0 */4 * * *", "2026-10-04T00:00+10:30", ["2026-10-04T04:00+11:00"]),
        ("Australia/Lord_Howe", "0 */4 * * *", "2026-04-05T00:00+11:00", ["2026-04-05T04:00+10:30"]),
        (
            "Australia/Lord_Howe",
            "*/15 * * * *",
            "2026-04-05T01:45+11:00",
            ["2026-04-05T01:30+10:30", "2026-04-05T01:45+10:30"],
        ),
        ("Asia/Kolkata", "30 */6 * * *", "2026-11-13T00:30+05:30", ["2026-11-13T06:30+05:30"]),
    ],
)
def test_across_clock_changes(zone: str, expression: str, start: str, expected: list[str]) -> None:
    assert following(expression, zone, start, len(expected)) == expected


CHANGES = {
    "Europe/Berlin": ("2026-03-29T01:00+00:00", "2026-10-25T01:00+00:00"),
    "America/New_York": ("2026-03-08T07:00+00:00", "2026-11-01T06:00+00:00"),
    "Australia/Lord_Howe": ("2026-10-03T15:30+00:00", "2026-04-04T15:00+00:00"),
    "Asia/Kolkata": ("2026-03-29T01:00+00:00",),
}
moments = st.sampled_from([(zone, change) for zone, changes in CHANGES.items() for change in changes])
minutes = st.sampled_from((0, 1, 15, 30, 45, 59))
hours = st.sampled_from((0, 1, 2, 3, 13))


@settings(deadline=None)
@given(moments, st.integers(-300, 300), st.sampled_from(("*", "*/5", "*/7", "*/30")), st.none() | hours)
def test_what_follows_the_clock_is_every_matching_minute(
    moment: tuple[str, str], minutes_off: int, minute: str, hour: int | None
) -> None:
    """Compared with a scan of all minutes: an instant matches when the local clock shows a matching time."""
    zone, step = moment[0], int(minute.removeprefix("*/")) if minute != "*" else 1
    start_ms = at(moment[1]) + minutes_off * MINUTE_MS
    for now_ms in range(start_ms + MINUTE_MS, start_ms + 60 * 60 * MINUTE_MS, MINUTE_MS):
        wall = datetime.fromtimestamp(now_ms / 1000, ZoneInfo(zone))
        if wall.minute % step == 0 and hour in (None, wall.hour):
            break
    assert parse(f"{minute} {'*' if hour is None else hour} * * *", zone).following_ms(start_ms) == now_ms


@settings(deadline=None)
@given(moments, minutes, hours)
def test_a_fixed_time_happens_once_a_day(moment: tuple[str, str], minute: int, hour: int) -> None:
    """The result is the same from every instant in between, as after a restart."""
    zone, cron = ZoneInfo(moment[0]), parse(f"{minute} {hour} * * *", moment[0])
    start_ms = at(moment[1]) - 2 * 86_400_000
    found = {cron.following_ms(start_ms + n * MINUTE_MS) for n in range(0, 4 * 1440, 7)}
    days = [datetime.fromtimestamp(at_ms / 1000, zone).date() for at_ms in sorted(at_ms or 0 for at_ms in found)]
    assert days == [days[0] + timedelta(days=n) for n in range(len(days))]
    assert len(days) >= 4


@pytest.mark.parametrize(
    "expression",
    ["", "* * * *", "60 * * * *", "* * * * * * *", "x * * * *", "* * 30 2 *", "*/0 * * * *", "5-1 * * * *", "@daily",
     "* * * * MON#6", "1,,2 * * * *", "* * * * L", "1" * 300],
)  # fmt: skip
def test_what_is_no_expression(expression: str) -> None:
    with pytest.raises(BadInput, match="cron expression"):
        parse(expression, "UTC")


@pytest.mark.parametrize(
    "zone", ["", "Mars/Olympus", "../../etc/passwd", "America", "/etc/localtime", "x" * 100, "UTC\0"]
)
def test_what_is_no_zone(zone: str) -> None:
    with pytest.raises(BadInput, match=r"time ?zone"):
        parse("* * * * *", zone)


def test_none_that_ever_comes() -> None:
    assert parse("0 0 31 2,4 FRI#5", "Europe/Berlin").following_ms(0) is not None  # the day or the weekday
    assert parse("0 0 1 1 *", "UTC").following_ms(int(datetime(9999, 6, 1, tzinfo=UTC).timestamp()) * 1000) is None
    assert parse("0 0 1 1 *", "UTC").following_ms(2**47 - 1) is None
    assert parse("* * * * *", "UTC").following_ms(2**60) is None
