"""What the loops do."""

from __future__ import annotations

import random

from ..core import validation as check
from ..core.errors import BadInput
from ..core.job import Job
from ..store import waiting
from ..store.asked import Asked, AskedToWait
from ..store.calls import queues, upkeep
from ..store.calls.call import Flow
from ..store.scatter import scatter
from .asking import Asking, ask


class Upkeep(Asking):
    def promote(self) -> Asked[upkeep.Step]:
        """One step of the scheduler: jobs whose time has come."""
        return Asked(self.store, lambda: ask(upkeep.promote(0)))

    def recover(self) -> Asked[upkeep.Step]:
        """One step of the recoverer: leases and workers that went silent, attempts over their time."""
        return Asked(self.store, self._recover_flow)

    def _recover_flow(self) -> Flow[upkeep.Step]:
        step, timed_out = yield upkeep.recover(0)
        if timed_out:
            decisions = [_time_out(job) for job in timed_out]
            yield from scatter(decisions, lambda _: 0, upkeep.time_out)
        return upkeep.Step(step.now_ms, step.done + len(timed_out), step.next_at_ms)

    def clean(self) -> Asked[upkeep.Step]:
        """One step of the janitor: retention and expiry."""
        return Asked(self.store, lambda: ask(upkeep.clean(0)))

    def sweep(self, cursor: str = "0") -> Asked[upkeep.Swept]:
        """One step of the janitor's walk over queues: forgets empty ones, finishes divisions by name."""
        check.scan_cursor(cursor)
        return Asked(self.store, lambda: self._sweep_flow(cursor))

    def _sweep_flow(self, cursor: str) -> Flow[upkeep.Swept]:
        swept: upkeep.Swept = yield upkeep.sweep(cursor, 0)
        for queue in swept.to_relane:
            yield queues.relane(queue, 0)
        return swept

    def listen(self, *, for_s: float) -> Asked[bool]:
        """Waits until something becomes due earlier than anybody knew; False when the time is over."""
        check.number("for_s", for_s, 0, check.DURATION_MAX // 1000)
        return AskedToWait(self.store, lambda: waiting.upkeep_waiting(self.store, for_s), _needs_event_loop)


def _time_out(job: Job) -> upkeep.TimeOut:
    if not job.retry.wants_retry(job.attempt):
        return upkeep.TimeOut(job.id, job.lease_token, "final", 0)
    return upkeep.TimeOut(job.id, job.lease_token, "retry", job.retry.delay_ms(job.attempt, random.random()))  # noqa: S311


def _needs_event_loop() -> bool:
    raise BadInput("The loops listen in an event loop; await this.")
