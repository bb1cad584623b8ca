"""Latency histogram with buckets by powers of two.

Bucket 0 counts durations below a millisecond, bucket b those from 2**(b-1) ms up to 2**b ms. Histograms are small and
can be added; a percentile is accurate to within its bucket.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import zip_longest
from typing import TypeAlias

Histogram: TypeAlias = tuple[int, ...]


def from_bucket_counts(by_bits: Mapping[int, int]) -> Histogram:
    return tuple(by_bits.get(bits, 0) for bits in range(max(by_bits, default=-1) + 1))


def sum_histograms(several: Iterable[Histogram]) -> Histogram:
    return tuple(map(sum, zip_longest(*several, fillvalue=0)))


def percentile(histogram: Histogram, share: float) -> int | None:
    """Return the approximate duration in ms that this share (0 to 1) of all durations does not exceed.

    Durations are assumed to be spread evenly within a bucket. None if the histogram is empty.
    """
    wanted = share * sum(histogram)
    if not sum(histogram):
        return None
    for bits, count in enumerate(histogram):
        if count and wanted <= count:
            low, high = (2 ** (bits - 1), 2**bits) if bits else (0, 0)
            return round(low + (high - low) * wanted / count)
        wanted -= count
    return int(2 ** (len(histogram) - 1))
