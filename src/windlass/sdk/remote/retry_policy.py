"""Retry policy of one request: when to send it again. No I/O and no clock."""

from __future__ import annotations

import random

from windlass.core.errors import WindlassError

from .request import ApiRequest, may_repeat

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 1.0


class RequestRetryPolicy:
    """Growing pauses between the attempts of one request, until its patience ends."""

    def __init__(self, patience_s: float, now_s: float) -> None:
        self._give_up_at_s = now_s + patience_s
        self._pause_s = FIRST_PAUSE_S

    def pause_s(self, error: WindlassError, request: ApiRequest, now_s: float) -> float:
        """Return the pause before the next attempt, or raise the error if there is none."""
        if not may_repeat(error, request) or now_s + self._pause_s > self._give_up_at_s:
            raise error
        pause_s = self._pause_s * random.uniform(0.5, 1.0)  # noqa: S311 (so that clients do not retry at the same time)
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
        return pause_s
