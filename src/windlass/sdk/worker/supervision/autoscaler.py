"""How many processes are wanted? Decides by what waits, how long it has waited, and how much of the slots is in use.
Pure: whoever asks says what time it is."""

from __future__ import annotations

import math
from typing import NamedTuple

WAITED_MS = 1_000  # a job that waits for so long has found no free slot
UP_PAUSE_S = 3.0  # a new process takes its first jobs within that time; before, nothing can be concluded
IN_USE = 0.5  # of the slots; with less, more of them would not help: what waits is held back by something else


class Load(NamedTuple):
    queued: int
    oldest_age_ms: int  # of what is queued; 0: nothing is
    running: int  # here


class Autoscaler:
    """Grows at once and by up to twice, shrinks by one after fewer would have been enough for `down_after_s`."""

    def __init__(self, least: int, most: int, *, down_after_s: float = 30.0) -> None:
        self.least = least
        self.most = most
        self._down_after_s = down_after_s
        self._changed_at_s = -math.inf
        self._enough_since_s: float | None = None  # fewer processes would do

    def wanted(self, now_s: float, load: Load, slots_per_process: int, current: int) -> int:
        count = self._decided(now_s, load, slots_per_process, current)
        count = min(max(count, self.least), self.most)
        if count != current:
            self._changed_at_s = now_s
            self._enough_since_s = None
        return count

    def _decided(self, now_s: float, load: Load, slots: int, current: int) -> int:
        needed = math.ceil((load.running + load.queued) / slots)
        if self._is_short(load, slots * current):
            self._enough_since_s = None
            is_settled = now_s - self._changed_at_s >= UP_PAUSE_S
            return max(current + 1, min(needed, 2 * current)) if is_settled else current
        if needed >= current:
            self._enough_since_s = None
            return current
        if self._enough_since_s is None:
            self._enough_since_s = now_s
        return current - 1 if now_s - self._enough_since_s >= self._down_after_s else current

    def _is_short(self, load: Load, slots: int) -> bool:
        return load.queued > 0 and load.oldest_age_ms >= WAITED_MS and load.running >= slots * IN_USE
