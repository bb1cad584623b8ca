"""Check that each number ran exactly once in a drain. A peer that fails the check is reported, not stopped."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple


class Delivery(NamedTuple):
    expected: int
    missing: int
    repeated: int  # runs beyond the first
    strange: int  # runs of numbers that were not enqueued

    @property
    def is_exact(self) -> bool:
        return not (self.missing or self.repeated or self.strange)

    def sentence(self) -> str:
        parts = {"did not run": self.missing, "ran again": self.repeated, "ran without an enqueue": self.strange}
        return f"of {self.expected:,} jobs " + ", ".join(f"{count:,} {what}" for what, count in parts.items() if count)


def delivery(numbers: Iterable[int], expected: int) -> Delivery:
    """Compare the numbers that ran with those from 0 to `expected` - 1."""
    runs = Counter(numbers)
    known = {number: count for number, count in runs.items() if 0 <= number < expected}
    repeated = sum(known.values()) - len(known)
    return Delivery(expected, expected - len(known), repeated, runs.total() - sum(known.values()))
