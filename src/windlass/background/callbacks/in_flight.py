"""How many deliveries are under way, in all and to each destination; so how many more may be taken on."""

from __future__ import annotations

from collections import Counter

from windlass.core.callbacks.callback import CALLBACKS_MAX, DeliveryCapacity

SILENT_REMEMBERED = 100  # destinations; they are named at each look
SILENT_ROOM = 1  # one that nobody answers at holds a single place until somebody does


class InFlightDeliveries:
    def __init__(self, most: int, usual: int) -> None:
        self._most = most
        self._usual = usual
        self._busy: Counter[str] = Counter()
        self._total = 0
        self._silent: dict[str, None] = {}  # in the order in which they fell silent

    def room(self) -> DeliveryCapacity:
        of = {mark: max(0, self._limit(mark) - self._busy[mark]) for mark in (*self._busy, *self._silent)}
        most = min(CALLBACKS_MAX, max(0, self._most - self._total))
        return DeliveryCapacity(most=most, per_destination=min(CALLBACKS_MAX, self._usual), by_destination=of)

    @property
    def is_idle(self) -> bool:
        return self._total == 0

    def begin(self, mark: str) -> bool:
        """False: there is no room for it."""
        if self._total >= self._most or self._busy[mark] >= self._limit(mark):
            return False
        self._busy[mark] += 1
        self._total += 1
        return True

    def end(self, mark: str, *, is_silent: bool) -> bool:
        """Whether room appeared where there was none."""
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
        return SILENT_ROOM if mark in self._silent else self._usual
