"""Liveness of the background loops: the loops of each partition report the end of a turn and the length of their
pause."""

from __future__ import annotations

import time

LATE_S = 10.0  # a turn is a few short calls; if it takes longer, it hangs


class Liveness:
    def __init__(self) -> None:
        self.clock = time.monotonic
        self._rests_until_s: dict[int, float] = {}

    def beat(self, partition: int, rest_s: float) -> None:
        self._rests_until_s[partition] = self.clock() + rest_s

    def late(self, partitions: int) -> list[int]:
        """Return the partitions whose loops have not run yet or are overdue."""
        latest_s = self.clock() - LATE_S
        return [
            partition for partition in range(partitions) if self._rests_until_s.get(partition, latest_s) <= latest_s
        ]
