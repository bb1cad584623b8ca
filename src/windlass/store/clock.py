"""The engine's time, estimated between two readings of it by a clock that cannot jump."""

from __future__ import annotations

import time
from collections.abc import Sequence

FRESH_S = 60.0


class EngineClock:
    def __init__(self) -> None:
        self.offset_ms = 0  # of tests
        self._engine_ms = 0
        self._read_at_s = 0.0

    def learn(self, reply: Sequence[bytes]) -> int:
        """From the reply to TIME."""
        self._engine_ms = int(reply[0]) * 1000 + int(reply[1]) // 1000
        self._read_at_s = time.monotonic()
        return self._engine_ms + self.offset_ms

    def now_ms(self) -> int | None:
        """None when the last reading is too old."""
        passed_s = time.monotonic() - self._read_at_s
        if self._engine_ms == 0 or passed_s > FRESH_S:
            return None
        return self._engine_ms + int(passed_s * 1000) + self.offset_ms
