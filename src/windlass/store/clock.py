"""Estimate of the engine's time between two readings, by the monotonic clock."""

from __future__ import annotations

import time
from collections.abc import Sequence

FRESH_S = 60.0


class EngineClock:
    """Clock shared by a store and its clones, in any thread."""

    def __init__(self) -> None:
        self.offset_ms = 0  # for tests
        self._reading = (0, 0.0)  # engine time and local time of the reading; one tuple, so that threads see a pair

    def learn(self, reply: Sequence[bytes]) -> int:
        """Store the reply to TIME and return it in milliseconds."""
        engine_ms = int(reply[0]) * 1000 + int(reply[1]) // 1000
        self._reading = (engine_ms, time.monotonic())
        return engine_ms + self.offset_ms

    def now_ms(self) -> int | None:
        """Return the engine's time, or None if the last reading is too old."""
        engine_ms, read_at_s = self._reading
        passed_s = time.monotonic() - read_at_s
        if engine_ms == 0 or passed_s > FRESH_S:
            return None
        return engine_ms + int(passed_s * 1000) + self.offset_ms
