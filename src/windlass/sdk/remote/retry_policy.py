"""Retry policy of one request: when to send it again. No I/O and no clock."""

from __future__ import annotations

from windlass.core.errors import WindlassError
from windlass.pauses import Pauses

from .request import ApiRequest, may_repeat

# Longer than those of the engine's connection: a request passes a server, often also proxies. Jitter keeps clients from
# retrying at the same time.
PAUSES = Pauses(0.05, 1.0, jitter=0.5)


class RequestRetryPolicy:
    """Growing pauses between the attempts of one request, until its patience ends."""

    def __init__(self, patience_s: float, now_s: float) -> None:
        self._give_up_at_s = now_s + patience_s
        self._failures = 0

    def pause_s(self, error: WindlassError, request: ApiRequest, now_s: float) -> float:
        """Return the pause before the next attempt, or raise the error if there is none."""
        self._failures += 1
        pause_s = PAUSES.after(self._failures)
        if not may_repeat(error, request) or now_s + pause_s > self._give_up_at_s:
            raise error
        return pause_s
