"""Percentiles of the latency histogram."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from windlass.core.stats.histogram import from_bucket_counts, percentile, sum_histograms


def counted(spans_ms: list[int]) -> tuple[int, ...]:
    by_bits: dict[int, int] = {}
    for span_ms in spans_ms:
        by_bits[span_ms.bit_length()] = by_bits.get(span_ms.bit_length(), 0) + 1
    return from_bucket_counts(by_bits)


def test_no_spans_have_no_percentile() -> None:
    assert percentile((), 0.5) is None
    assert percentile((0, 0), 0.5) is None
    assert percentile((7,), 0.95) == 0


@given(st.lists(st.integers(0, 2**31 - 1), min_size=1), st.sampled_from([0.5, 0.95, 0.99, 1.0]))
def test_a_percentile_is_right_within_a_factor_of_two(spans_ms: list[int], share: float) -> None:
    exact = sorted(spans_ms)[min(len(spans_ms) - 1, max(0, -int(-(share * len(spans_ms)) // 1) - 1))]
    told = percentile(counted(spans_ms), share)
    assert told is not None
    assert 2 ** (exact.bit_length() - 1) - 1 <= told <= 2 ** exact.bit_length()


@given(st.lists(st.integers(0, 10_000)), st.lists(st.integers(0, 10_000)))
def test_spans_can_be_added(some: list[int], others: list[int]) -> None:
    assert sum_histograms([counted(some), counted(others)]) == counted(some + others)
