"""Occurrences of schedules, and the decision which due occurrences fire."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.core.job import NewJob
from windlass.core.scheduling.occurrences import (
    LOOKED_AT,
    Firing,
    first_at_ms,
    following_at_ms,
    plan_firing,
    resumed_at_ms,
    upcoming_ms,
)
from windlass.core.scheduling.schedule import Schedule
from windlass.core.text.durations import INSTANT_MAX

DAY_MS, HOUR_MS, MINUTE_MS = 86_400_000, 3_600_000, 60_000
NOW = 20_000 * DAY_MS + 10 * MINUTE_MS  # ten past midnight, UTC


def schedule(**kw: Any) -> Schedule:
    rhythm = {} if kw.keys() & {"cron", "every_ms", "repeat"} else {"every_ms": 1_000}
    return Schedule(name="s", job=NewJob(queue="q", name="n"), **rhythm | kw)


@pytest.mark.parametrize(
    ("rhythm", "following"),
    [
        ({"every_ms": HOUR_MS}, [HOUR_MS, 2 * HOUR_MS, 3 * HOUR_MS]),
        ({"every_ms": HOUR_MS, "ends_at_ms": NOW + 2 * HOUR_MS}, [HOUR_MS, 2 * HOUR_MS]),
        ({"every_ms": HOUR_MS, "ends_at_ms": NOW + 1}, []),
        ({"cron": "0 9 * * *"}, [530 * MINUTE_MS, 530 * MINUTE_MS + DAY_MS, 530 * MINUTE_MS + 2 * DAY_MS]),
        ({"repeat": "FINISHED, +1 DAY"}, [DAY_MS, 2 * DAY_MS, 3 * DAY_MS]),
    ],
)
def test_upcoming_occurrences(rhythm: dict[str, Any], following: list[int]) -> None:
    found = schedule(**rhythm)
    assert upcoming_ms(found, first_at_ms(found, NOW), 3) == [NOW + after_ms for after_ms in following]


@pytest.mark.parametrize(
    ("rhythm", "first"),
    [
        ({"cron": "0 * * * *"}, NOW + 50 * MINUTE_MS),
        ({"cron": "10 * * * *"}, NOW),  # now is not too late
        ({"cron": "0 * * * *", "starts_at_ms": NOW + HOUR_MS}, NOW + 110 * MINUTE_MS),
        ({"cron": "0 * * * *", "starts_at_ms": NOW + 50 * MINUTE_MS}, NOW + 50 * MINUTE_MS),
        ({"cron": "0 * * * *", "ends_at_ms": NOW + 49 * MINUTE_MS}, None),
        ({"cron": "0 9 * * *", "timezone": "Asia/Kolkata"}, NOW + 3 * HOUR_MS + 20 * MINUTE_MS),
        ({"every_ms": HOUR_MS}, NOW + HOUR_MS),
        ({"every_ms": HOUR_MS, "starts_at_ms": NOW + 5}, NOW + 5),
        ({"every_ms": HOUR_MS, "starts_at_ms": NOW}, NOW),
        ({"every_ms": HOUR_MS, "starts_at_ms": NOW - 1}, NOW + HOUR_MS - 1),
        ({"every_ms": HOUR_MS, "starts_at_ms": NOW - 10 * HOUR_MS}, NOW),
        ({"every_ms": HOUR_MS, "ends_at_ms": NOW + HOUR_MS}, NOW + HOUR_MS),
        ({"every_ms": HOUR_MS, "ends_at_ms": NOW + HOUR_MS - 1}, None),
        ({"repeat": "SCHEDULED, +1 HOUR"}, NOW + HOUR_MS),
        ({"repeat": "SCHEDULED, +1 HOUR", "starts_at_ms": NOW - 150 * MINUTE_MS}, NOW + 30 * MINUTE_MS),
        ({"repeat": "DAILY", "starts_at_ms": NOW + 1}, NOW + 1),
        ({"repeat": "SCHEDULED, START OF DAY"}, None),
    ],
)
def test_the_first(rhythm: dict[str, Any], first: int | None) -> None:
    assert first_at_ms(schedule(**rhythm), NOW) == first


def test_what_follows() -> None:
    assert following_at_ms(schedule(every_ms=5_000), NOW, NOW + 99) == NOW + 5_000
    assert following_at_ms(schedule(cron="*/5 * * * *"), NOW, NOW + 99 * MINUTE_MS) == NOW + 5 * MINUTE_MS
    assert following_at_ms(schedule(repeat="SCHEDULED, +1 HOUR"), NOW, NOW + 7_000) == NOW + HOUR_MS
    assert following_at_ms(schedule(repeat="HOURLY"), NOW, NOW + 7_000) == NOW + HOUR_MS + 7_000
    assert following_at_ms(schedule(repeat="SCHEDULED, -1 HOUR"), NOW, NOW) is None
    assert following_at_ms(schedule(every_ms=5_000), INSTANT_MAX, NOW) is None


def test_after_a_pause_the_rhythm_is_the_same() -> None:
    later = NOW + 10 * HOUR_MS + 1
    assert resumed_at_ms(schedule(every_ms=HOUR_MS), NOW, later) == NOW + 11 * HOUR_MS
    assert resumed_at_ms(schedule(repeat="SCHEDULED, +1 HOUR"), NOW, later) == NOW + 11 * HOUR_MS
    assert resumed_at_ms(schedule(repeat="HOURLY"), NOW, later) == (later + HOUR_MS) // 1000 * 1000
    assert resumed_at_ms(schedule(cron="30 * * * *"), NOW, later) == NOW + 10 * HOUR_MS + 20 * MINUTE_MS
    assert resumed_at_ms(schedule(every_ms=HOUR_MS), NOW, NOW - 1) == NOW
    assert resumed_at_ms(schedule(repeat="SCHEDULED, +1 SECOND"), NOW, NOW + DAY_MS) == NOW + DAY_MS + 1_000  # too many
    assert resumed_at_ms(schedule(every_ms=HOUR_MS, ends_at_ms=later), NOW, later) is None


@pytest.mark.parametrize("rhythm", [{"every_ms": HOUR_MS}, {"cron": "* * * * *"}, {"repeat": "SCHEDULED, +1 HOUR"}])
def test_after_a_pause_it_does_not_begin_before_its_start(rhythm: dict[str, Any]) -> None:
    found = schedule(**rhythm, starts_at_ms=NOW + DAY_MS)
    assert resumed_at_ms(found, NOW + DAY_MS, NOW) == NOW + DAY_MS


def fired(late_ms: int, most: int = 50, **kw: Any) -> Firing:
    """A schedule that fires every second, whose first due occurrence is this late."""
    return plan_firing(schedule(every_ms=1_000, **{"misfire_after_ms": 2_000} | kw), NOW - late_ms, NOW, most)


def at(*seconds: int) -> list[int]:
    return [NOW + second * 1_000 for second in seconds]


def test_which_are_fired() -> None:
    assert fired(0) == Firing(at(0), 0, 0, NOW + 1_000)
    assert fired(2_000, misfire="none") == Firing(at(-2, -1, 0), 0, 0, NOW + 1_000)
    assert fired(4_000, misfire="none") == Firing(at(-2, -1, 0), 0, 2, NOW + 1_000)
    assert fired(4_000, misfire="latest") == Firing(at(-2, -1, 0), 0, 2, NOW + 1_000)
    assert fired(4_000, misfire="all") == Firing(at(-4, -3, -2, -1, 0), 0, 0, NOW + 1_000)
    assert fired(4_500, misfire_after_ms=0, misfire="latest") == Firing([NOW - 500], 0, 4, NOW + 500)
    assert fired(4_500, misfire_after_ms=0, misfire="none") == Firing([], 0, 5, NOW + 500)


def test_overlapping_ones_of_one_step() -> None:
    assert fired(4_000, misfire="all", overlap="skip") == Firing(at(-4), 4, 0, NOW + 1_000)
    assert fired(4_000, misfire="all", overlap="replace") == Firing(at(0), 4, 0, NOW + 1_000)


def test_a_step_is_bounded_and_goes_on() -> None:
    assert fired(9_000, most=3, misfire="all") == Firing(at(-9, -8, -7), 0, 0, NOW - 6_000)
    long_ago = LOOKED_AT * 1_000 * 3
    assert fired(long_ago, misfire="latest") == Firing([], 0, LOOKED_AT, NOW - long_ago + LOOKED_AT * 1_000)
    assert fired(60_000, most=3, misfire="none", misfire_after_ms=10_000) == Firing(at(-10, -9, -8), 0, 50, NOW - 7_000)


def test_the_end_is_the_last() -> None:
    assert fired(4_000, misfire="all", ends_at_ms=NOW - 2_000) == Firing(at(-4, -3, -2), 0, 0, None)
    assert fired(9_000, misfire="latest", ends_at_ms=NOW - 5_000) == Firing(at(-5), 0, 4, None)


@settings(deadline=None)
@given(
    late_s=st.integers(0, 1000),
    most=st.integers(1, 60),
    misfire=st.sampled_from(("all", "latest", "none")),
    grace_ms=st.sampled_from((0, 500, 2_000, 100_000)),
)
def test_step_by_step_it_is_as_if_in_one(late_s: int, most: int, misfire: Any, grace_ms: int) -> None:
    """Each due occurrence fires or is missed exactly once, by its policy, for any number of steps."""
    found = schedule(every_ms=1_000, misfire=misfire, misfire_after_ms=grace_ms)
    due = at(*range(-late_s, 1))
    next_at: int | None = due[0]
    chosen, missed = list[int](), 0
    while next_at is not None and next_at <= NOW:
        firing = plan_firing(found, next_at, NOW, most)
        assert len(firing.planned) <= most
        chosen += firing.planned
        missed += firing.missed
        assert firing.next_at_ms is None or firing.next_at_ms > next_at
        next_at = firing.next_at_ms
    in_time = [instant for instant in due if NOW - instant <= grace_ms]
    assert chosen == {"all": due, "none": in_time, "latest": in_time or due[-1:]}[misfire]
    assert len(chosen) + missed == len(due)
