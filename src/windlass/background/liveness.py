"""Whether the loops of a process tick: those of each partition say when they have ended a turn, and how long they will
rest."""

from __future__ import annotations

import time

LATE_S = 10.0  # a turn that takes longer hangs: it is a few short calls


class Liveness:
    def __init__(self) -> None:
        self.clock = time.monotonic
        self._rests_until_s: dict[int, float] = {}

    def beat(self, partition: int, rest_s: float) -> None:
        self._rests_until_s[partition] = self.clock() + rest_s

    def late(self, partitions: int) -> list[int]:
        """The partitions whose loops have not run yet, or should have run again."""
        latest_s = self.clock() - LATE_S
        return [
            partition for partition in range(partitions) if self._rests_until_s.get(partition, latest_s) <= latest_s
        ]
