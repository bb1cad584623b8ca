"""When is a failed attempt made again? The one place that computes a backoff."""

from __future__ import annotations

import msgspec


class Backoff(msgspec.Struct, frozen=True, array_like=True):
    """Attempts and the growing pauses between them. `tries=0` never gives up."""

    tries: int = 3
    base_ms: int = 1_000
    factor: float = 2.0
    cap_ms: int = 600_000
    jitter: float = 0.1  # at most this share more or less

    def delay_ms(self, attempt: int, random_unit: float = 0.5) -> int:
        """The pause after the n-th attempt (from 1); `random_unit` in 0..1 places it within the jitter."""
        exponent = min(max(attempt - 1, 0), 63)
        try:
            pause = min(self.base_ms * self.factor**exponent, self.cap_ms)
        except OverflowError:
            pause = self.cap_ms if self.base_ms else 0
        return int(pause * (1 + self.jitter * (2 * random_unit - 1)))

    def wants_retry(self, attempt: int) -> bool:
        return self.tries == 0 or attempt < self.tries


ENDLESS = Backoff(tries=0)
