"""Autoscaler: changes the number of processes in steps towards the number that the jobs need (core/scale.py).

It does no I/O; the caller passes the time.
"""

from __future__ import annotations

import math

from windlass.core.scale import Load, ScaleTarget, needed_workers

WAITED_MS = 1_000  # a job that has waited for this time found no free slot
UP_PAUSE_S = 3.0  # a new process takes its first jobs within this time; before, its effect cannot be judged
IN_USE = 0.5  # share of the slots; below it more slots would not help, because something else holds the jobs back


class Autoscaler:
    """Number of processes between `least` and `most`.

    It grows at once, by up to a factor of two. It shrinks by one process after fewer would have sufficed for
    `down_after_s`.
    """

    def __init__(self, least: int, most: int, *, down_after_s: float = 30.0) -> None:
        self.least = least
        self.most = most
        self._down_after_s = down_after_s
        self._changed_at_s = -math.inf
        self._enough_since_s: float | None = None  # fewer processes would suffice

    def decide(self, now_s: float, load: Load, slots_per_process: int, current: int) -> int:
        count = self._decide(now_s, load, slots_per_process, current)
        count = min(max(count, self.least), self.most)
        if count != current:
            self._changed_at_s = now_s
            self._enough_since_s = None
        return count

    def _decide(self, now_s: float, load: Load, slots: int, current: int) -> int:
        needed = needed_workers(load, ScaleTarget(slots=slots, target=slots))  # a process for every job without a slot
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
