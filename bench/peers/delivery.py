"""Whether each number ran once: what a drain must show. A peer that fails it is reported, not stopped."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple


class Delivery(NamedTuple):
    expected: int
    missing: int
    repeated: int  # runs beyond the first
    strange: int  # runs of what nobody enqueued

    @property
    def is_exact(self) -> bool:
        return not (self.missing or self.repeated or self.strange)

    def sentence(self) -> str:
        parts = {"did not run": self.missing, "ran again": self.repeated, "nobody had enqueued": self.strange}
        return f"of {self.expected:,} jobs " + ", ".join(f"{count:,} {what}" for what, count in parts.items() if count)


def delivery(numbers: Iterable[int], expected: int) -> Delivery:
    """Of the numbers from 0 to `expected` - 1."""
    runs = Counter(numbers)
    known = {number: count for number, count in runs.items() if 0 <= number < expected}
    repeated = sum(known.values()) - len(known)
    return Delivery(expected, expected - len(known), repeated, runs.total() - sum(known.values()))
