"""Backoff between attempts of a job."""

from __future__ import annotations

import msgspec


class Backoff(msgspec.Struct, frozen=True, array_like=True):
    """Number of attempts, and the growing delays between them. `tries=0` means unlimited attempts."""

    tries: int = 3
    base_ms: int = 1_000
    factor: float = 2.0
    cap_ms: int = 600_000
    jitter: float = 0.1  # the delay varies by at most this share

    def delay_ms(self, attempt: int, random_unit: float = 0.5) -> int:
        """Return the delay after the n-th attempt (from 1). `random_unit` in 0..1 selects it within the jitter."""
        exponent = min(max(attempt - 1, 0), 63)
        try:
            delay = min(self.base_ms * self.factor**exponent, self.cap_ms)
        except OverflowError:
            delay = self.cap_ms if self.base_ms else 0
        return int(delay * (1 + self.jitter * (2 * random_unit - 1)))

    def wants_retry(self, attempt: int) -> bool:
        return self.tries == 0 or attempt < self.tries


ENDLESS = Backoff(tries=0)
