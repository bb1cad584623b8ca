"""The engine's time, estimated between two readings of it by a clock that cannot jump."""

from __future__ import annotations

import time
from collections.abc import Sequence

FRESH_S = 60.0


class EngineClock:
    """One for a store and its twins, in whatever threads they are."""

    def __init__(self) -> None:
        self.offset_ms = 0  # of tests
        self._reading = (0, 0.0)  # the engine's time, and when it was read: one value, so that they belong together

    def learn(self, reply: Sequence[bytes]) -> int:
        """From the reply to TIME."""
        engine_ms = int(reply[0]) * 1000 + int(reply[1]) // 1000
        self._reading = (engine_ms, time.monotonic())
        return engine_ms + self.offset_ms

    def now_ms(self) -> int | None:
        """None when the last reading is too old."""
        engine_ms, read_at_s = self._reading
        passed_s = time.monotonic() - read_at_s
        if engine_ms == 0 or passed_s > FRESH_S:
            return None
        return engine_ms + int(passed_s * 1000) + self.offset_ms
