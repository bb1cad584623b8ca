"""Growing pauses with jitter: between attempts of a retry loop, and before restarts of a process.

This module imports no asyncio, because the embedded engine's supervisor loads it in a bare interpreter."""

from __future__ import annotations

import random
from typing import NamedTuple

# Not the global generator: a program may seed it to repeat its results, and this package draws in other threads.
_generator = random.SystemRandom()


def random_fraction() -> float:
    """Return a random number from 0 to below 1."""
    return _generator.random()


class Pauses(NamedTuple):
    """Pauses between attempts: each is twice the one before, up to the longest. `jitter` is the share by which a pause
    may be shorter at random, so that many processes do not try again at the same moment."""

    first_s: float
    longest_s: float
    jitter: float = 0.0

    def after(self, failures: int) -> float:
        """Return the pause after the n-th failure in a row (from 1)."""
        pause_s = min(self.first_s * 2.0 ** min(failures - 1, 63), self.longest_s)
        return pause_s * (1 - self.jitter * random_fraction())
