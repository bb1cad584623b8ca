"""Rate limiter: a token bucket per principal that holds the requests of one second. Each server process counts
separately."""

from __future__ import annotations

BUCKETS_MAX = 2_000  # more than there can be tokens; buckets of revoked tokens are dropped at this number
BUCKET_S = 1.0


class RateLimiter:
    """Token buckets by the name of the principal."""

    def __init__(self) -> None:
        self._full_at_s: dict[str, float] = {}  # time at which a bucket is full again

    def acquire(self, name: str, rate: int, now_s: float) -> float:
        """Count a request and return 0, or return the seconds to wait without counting it."""
        if rate <= 0:
            return 0.0
        full_at_s = max(self._full_at_s.get(name, 0.0), now_s) + 1 / rate
        wait_s = full_at_s - now_s - BUCKET_S
        if wait_s > 1e-9:
            return wait_s
        if name not in self._full_at_s and len(self._full_at_s) >= BUCKETS_MAX:
            self._make_room(now_s)
        self._full_at_s[name] = full_at_s
        return 0.0

    def _make_room(self, now_s: float) -> None:
        """Drop full buckets: they equal missing ones. If few are full, drop the oldest half."""
        self._full_at_s = {name: at_s for name, at_s in self._full_at_s.items() if at_s > now_s}
        if len(self._full_at_s) > BUCKETS_MAX // 2:
            self._full_at_s = dict(list(self._full_at_s.items())[BUCKETS_MAX // 2 :])
