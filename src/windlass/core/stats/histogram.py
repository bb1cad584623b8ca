"""Spans of time counted by their number of bits: place 0 counts those below a millisecond, place b those of 2**(b-1) ms
up to 2**b. They are few numbers, they can be added, and a percentile told from them is right within its bucket."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import zip_longest
from typing import TypeAlias

Histogram: TypeAlias = tuple[int, ...]


def from_bucket_counts(by_bits: Mapping[int, int]) -> Histogram:
    return tuple(by_bits.get(bits, 0) for bits in range(max(by_bits, default=-1) + 1))


def sum_histograms(several: Iterable[Histogram]) -> Histogram:
    return tuple(map(sum, zip_longest(*several, fillvalue=0)))


def percentile(spans: Histogram, share: float) -> int | None:
    """The ms that this share (0 to 1) of all does not exceed, about: within a bucket they are taken to lie evenly.
    None when there are none."""
    wanted = share * sum(spans)
    if not sum(spans):
        return None
    for bits, count in enumerate(spans):
        if count and wanted <= count:
            low, high = (2 ** (bits - 1), 2**bits) if bits else (0, 0)
            return round(low + (high - low) * wanted / count)
        wanted -= count
    return int(2 ** (len(spans) - 1))
