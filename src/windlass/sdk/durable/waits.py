"""Conditions on which a run is suspended, and the time of the engine."""

from __future__ import annotations

import time

import msgspec

from windlass.core.durable import DurableState, Wait
from windlass.core.job import Job

IN_PLACE_MS = 2_000  # shorter waits keep the slot: a suspension costs two calls and a replay


def deadline_at_ms(job: Job, deadline_ms: int) -> int:
    """Return the instant at which a job must have ended. It counts from its creation, or from its planned instant."""
    return (job.planned_at_ms or job.created_at_ms) + deadline_ms


class PendingWait(msgspec.Struct, frozen=True):
    """Condition of a call that waits. Its time counts from the call, not from the report of the suspension."""

    wait: Wait
    ends_at_s: float | None = None  # by time.monotonic(); None: no end
    ends_in_place: bool = False  # it is over when its time is over

    def at(self, now_s: float) -> Wait:
        if self.ends_at_s is None:
            return self.wait
        return msgspec.structs.replace(self.wait, for_ms=max(0, round((self.ends_at_s - now_s) * 1000)))

    @property
    def left_s(self) -> float | None:
        """Time until it is over in place."""
        if self.ends_at_s is None or not self.ends_in_place:
            return None
        return max(0.0, self.ends_at_s - time.monotonic())


class EngineClock:
    """Time of the engine, as far as a run knows it from its last read."""

    def __init__(self, job: Job, state: DurableState | None) -> None:
        read_at_ms = state.now_ms if state is not None else job.started_at_ms or 0
        self._ahead_ms = read_at_ms - time.monotonic() * 1000

    def left_s(self, at_ms: int) -> float:
        """Return the time until an instant of the engine, or a little more: it never ends early."""
        return (at_ms - self._ahead_ms) / 1000 - time.monotonic()
