"""How often and how long a server that is away is tried: the decision, without I/O and without a clock of its own."""

from __future__ import annotations

import random

from windlass.core.errors import WindlassError

from .request import Request, may_repeat

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 1.0


class Patience:
    """Of one request, from its first sending on."""

    def __init__(self, patience_s: float, now_s: float) -> None:
        self._give_up_at_s = now_s + patience_s
        self._pause_s = FIRST_PAUSE_S

    def pause_s(self, error: WindlassError, request: Request, now_s: float) -> float:
        """How long to wait before it is sent again; raises the error when it is not."""
        if not may_repeat(error, request) or now_s + self._pause_s > self._give_up_at_s:
            raise error
        pause_s = self._pause_s * random.uniform(0.5, 1.0)  # noqa: S311 (so that many do not come back at once)
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
        return pause_s
