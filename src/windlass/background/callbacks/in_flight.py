"""Deliveries in flight, in total and per destination, and the remaining capacity."""

from __future__ import annotations

from collections import Counter

from windlass.core.callbacks.callback import CALLBACKS_MAX, DeliveryCapacity

SILENT_REMEMBERED = 100  # destinations; each poll names them
SILENT_MAX = 1  # deliveries in flight to a destination that does not answer, until it answers


class InFlightDeliveries:
    def __init__(self, most: int, usual: int) -> None:
        self._most = most
        self._usual = usual
        self._busy: Counter[str] = Counter()
        self._total = 0
        self._silent: dict[str, None] = {}  # destinations without an answer, the longest silent first

    def capacity(self) -> DeliveryCapacity:
        of = {mark: max(0, self._limit(mark) - self._busy[mark]) for mark in (*self._busy, *self._silent)}
        most = min(CALLBACKS_MAX, max(0, self._most - self._total))
        return DeliveryCapacity(most=most, per_destination=min(CALLBACKS_MAX, self._usual), by_destination=of)

    @property
    def is_idle(self) -> bool:
        return self._total == 0

    def begin(self, mark: str) -> bool:
        """Count a delivery. Return False if there is no capacity for it."""
        if self._total >= self._most or self._busy[mark] >= self._limit(mark):
            return False
        self._busy[mark] += 1
        self._total += 1
        return True

    def end(self, mark: str, *, is_silent: bool) -> bool:
        """End a delivery. Return whether capacity appeared where there was none."""
        was_full = self._total >= self._most or self._busy[mark] >= self._limit(mark)
        self._busy[mark] -= 1
        self._total -= 1
        if not self._busy[mark]:
            del self._busy[mark]
        was_silent = mark in self._silent
        self._silent.pop(mark, None)
        if is_silent:
            self._silent[mark] = None
            if len(self._silent) > SILENT_REMEMBERED:
                self._silent.pop(next(iter(self._silent)))
        return was_full or was_silent

    def _limit(self, mark: str) -> int:
        return SILENT_MAX if mark in self._silent else self._usual
