"""Recoverer: expired leases, attempts over their timeout, silent workers and lost wakeups."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from windlass.service import Service

from .loop import Tick

GRACE_S = 5.0  # longer than the pauses between the attempts of a heartbeat
LOOKS_APART_S = 0.25
LOOK_AGAIN_MS = int(GRACE_S * 1000) + 50  # the first look is then old enough


class Look(NamedTuple):
    answered_at_s: float  # monotonic
    now_ms: int  # the engine's time


class Recoverer:
    """Recoverer of one process and partition.

    A silent worker loses its jobs when a second look, `GRACE_S` after a first one, finds it still silent. An engine or
    a machine that was away for longer than the heartbeats of all workers thus takes no jobs from live ones: their
    heartbeats arrive between the two looks.
    """

    name = "recoverer"

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._looks: deque[Look] = deque()

    async def tick(self, service: Service) -> Tick:
        step = await service.recover(silent_before_ms=self._first_look_ms(), look_again_ms=LOOK_AGAIN_MS)
        self._note(Look(self._clock(), step.now_ms))
        return Tick(step.done, step.now_ms, step.next_at_ms)

    def _first_look_ms(self) -> int:
        """Return the instant of the newest look that is old enough; 0: there is none."""
        until_s = self._clock() - GRACE_S
        while len(self._looks) > 1 and self._looks[1].answered_at_s <= until_s:
            self._looks.popleft()
        return self._looks[0].now_ms if self._looks and self._looks[0].answered_at_s <= until_s else 0

    def _note(self, look: Look) -> None:
        """Keep a look. Of looks that follow each other closely, only the newest is kept."""
        if len(self._looks) > 1 and look.answered_at_s - self._looks[-2].answered_at_s < LOOKS_APART_S:
            self._looks.pop()
        self._looks.append(look)
