"""Tests of the rate limiter."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from windlass.web.app import rate_limit
from windlass.web.app.rate_limit import RateLimiter


def test_a_burst_of_a_second_and_then_the_rate() -> None:
    rates = RateLimiter()
    assert [rates.acquire("a", 4, 100.0) for _ in range(4)] == [0.0] * 4
    assert rates.acquire("a", 4, 100.0) == 0.25
    assert rates.acquire("a", 4, 100.25) == 0.0
    assert rates.acquire("a", 4, 100.25) == 0.25
    assert [rates.acquire("a", 4, 200.0) for _ in range(5)] == [0.0] * 4 + [0.25]


def test_one_a_second() -> None:
    rates = RateLimiter()
    assert rates.acquire("a", 1, 5.0) == 0.0
    assert rates.acquire("a", 1, 5.5) == 0.5
    assert rates.acquire("a", 1, 6.0) == 0.0


def test_principals_have_separate_buckets_and_no_rate_means_no_limit() -> None:
    rates = RateLimiter()
    assert rates.acquire("a", 1, 5.0) == 0.0
    assert rates.acquire("b", 1, 5.0) == 0.0
    assert all(rates.acquire("c", 0, 5.0) == 0.0 for _ in range(1_000))


def test_refused_requests_are_not_counted() -> None:
    rates = RateLimiter()
    assert rates.acquire("a", 1, 5.0) == 0.0
    assert {rates.acquire("a", 1, 5.0) for _ in range(100)} == {1.0}
    assert rates.acquire("a", 1, 6.0) == 0.0


def test_another_rate_counts_from_now_on() -> None:
    rates = RateLimiter()
    assert rates.acquire("a", 1, 5.0) == 0.0
    assert rates.acquire("a", 10, 5.0) > 0.0
    assert rates.acquire("a", 10, 5.2) == 0.0


def test_memory_is_bounded() -> None:
    rates = RateLimiter()
    for number in range(3 * rate_limit.BUCKETS_MAX):
        assert rates.acquire(str(number), 1, 5.0) == 0.0
        assert len(rates._full_at_s) <= rate_limit.BUCKETS_MAX
    assert rates.acquire(str(3 * rate_limit.BUCKETS_MAX - 1), 1, 5.0) == 1.0  # the latest bucket is kept
    assert rates.acquire("later", 1, 7.0) == 0.0
    assert len(rates._full_at_s) == 1


@given(st.integers(1, 1_000), st.lists(st.floats(0, 0.5), min_size=1, max_size=200))
def test_never_more_than_the_rate_and_one_second_more(per_second: int, pauses: list[float]) -> None:
    rates, now_s, allowed = RateLimiter(), 1_000.0, 0
    for pause_s in pauses:
        now_s += pause_s
        wait_s = rates.acquire("a", per_second, now_s)
        allowed += wait_s == 0.0
        if wait_s:
            assert 0 < wait_s <= 1 / per_second + 1e-6
            assert RateLimiter().acquire("a", per_second, now_s) == 0.0
    assert allowed <= per_second * (now_s - 1_000.0 + 1) + 1e-3
