"""Backoff between attempts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.retry import ENDLESS, Backoff


def test_pauses_grow_by_the_factor_up_to_the_cap() -> None:
    backoff = Backoff(tries=0, base_ms=1_000, factor=2.0, cap_ms=10_000, jitter=0.0)
    assert [backoff.delay_ms(attempt) for attempt in range(1, 7)] == [1_000, 2_000, 4_000, 8_000, 10_000, 10_000]


def test_the_jitter_is_a_share_more_or_less() -> None:
    backoff = Backoff(base_ms=1_000, jitter=0.1)
    assert (backoff.delay_ms(1, 0.0), backoff.delay_ms(1, 0.5), backoff.delay_ms(1, 1.0)) == (900, 1_000, 1_100)


def test_a_constant_pause() -> None:
    backoff = Backoff(base_ms=500, factor=1.0, jitter=0.0)
    assert {backoff.delay_ms(attempt) for attempt in range(1, 100)} == {500}


@pytest.mark.parametrize("attempt", [-1, 0, 1])
def test_before_the_first_attempt_it_is_the_first_pause(attempt: int) -> None:
    assert Backoff(base_ms=700, jitter=0.0).delay_ms(attempt) == 700


@pytest.mark.parametrize(("tries", "attempt", "expected"), [(3, 2, True), (3, 3, False), (3, 4, False), (1, 1, False)])
def test_tries_bound_the_attempts(tries: int, attempt: int, expected: bool) -> None:
    assert Backoff(tries=tries).wants_retry(attempt) is expected


def test_no_number_of_tries_never_gives_up() -> None:
    assert ENDLESS.wants_retry(10**9)


@given(
    st.builds(
        Backoff,
        tries=st.integers(0, 2**32 - 1),
        base_ms=st.integers(0, 2**42),
        factor=st.floats(1, 1000),
        cap_ms=st.integers(0, 2**42),
        jitter=st.floats(0, 1),
    ),
    st.integers(1, 2**32 - 1),
    st.floats(0, 1),
)
def test_whatever_may_be_given_the_pause_is_a_duration(backoff: Backoff, attempt: int, random_unit: float) -> None:
    delay_ms = backoff.delay_ms(attempt, random_unit)
    assert type(delay_ms) is int
    assert 0 <= delay_ms <= 2 * backoff.cap_ms
