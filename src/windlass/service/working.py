"""Jobs are taken, and those who hold them report."""

from __future__ import annotations

import random
from collections.abc import Sequence

from ..core import validation as check
from ..core.errors import BadInput, CrossPartition
from ..core.event import Emit
from ..core.requests import (
    Exchanged,
    Extended,
    Fail,
    Failed,
    Finish,
    Finished,
    Held,
    Take,
    Taken,
    Update,
    Updated,
)
from ..store import waiting
from ..store.asked import Asked, AskedMany, AskedToWait
from ..store.calls import reports
from .asking import Asking
from .repeating import exchange_flow, finish_flow


class Working(Asking):
    def take(self, request: Take) -> Asked[Taken]:
        """Leases jobs; waits up to `wait_ms` for the first one."""
        check.take(request)
        chosen, home = self._queues_for(request)
        return AskedToWait(
            self.store,
            lambda: waiting.take_waiting(self.store, request, chosen, home),
            lambda: waiting.take_waiting_now(self.store, request, chosen, home),
        )

    def _queues_for(self, request: Take) -> tuple[list[str], int]:
        homes = {self.store.partition_of_queue(queue) for queue in request.queues}
        if len(homes) > 1:
            raise CrossPartition()
        order = list(request.queues)
        if request.weights:
            # A random key raised to 1/weight puts each queue first in proportion to its weight.
            weights = dict(zip(order, request.weights, strict=True))
            keys = {queue: random.random() ** (1 / weight) for queue, weight in weights.items()}  # noqa: S311
            order.sort(key=keys.__getitem__, reverse=True)
        return order, homes.pop()

    def exchange(self, finishes: Sequence[Finish], failures: Sequence[Fail], request: Take) -> Asked[Exchanged]:
        """Reports outcomes and takes the next jobs in one call. Does not wait."""
        check.items("finishes", finishes)
        check.items("failures", failures)
        for finished in finishes:
            check.finish(finished)
        for failed in failures:
            check.fail(failed)
        check.take(request)
        if len(finishes) + len(failures) > check.TAKE_MAX:
            raise BadInput(f"An exchange reports at most {check.TAKE_MAX} outcomes.")
        chosen, home = self._queues_for(request)
        reported = [one.id for one in finishes] + [one.id for one in failures]
        if any(self.store.partition_of_job(job_id) != home for job_id in reported):
            raise CrossPartition()
        return AskedToWait(
            self.store,
            lambda: waiting.take_once(self.store, exchange_flow(finishes, failures, request, chosen, home)),
            lambda: self.store.run_now(exchange_flow(finishes, failures, request, chosen, home)),
        )

    def accept(self, requests: Sequence[Held], *, lease_ms: int = 0) -> AskedMany[int | None]:
        """Takes on dispatched jobs; answers their deadlines."""
        check.lease("lease_ms", lease_ms)
        return self._about_jobs(requests, check.held, lambda part, home: reports.accept(part, lease_ms, home))

    def extend(self, requests: Sequence[Held], *, lease_ms: int = 0) -> AskedMany[Extended]:
        """Heartbeat of many leases; says which are lost and which jobs are asked to stop."""
        check.lease("lease_ms", lease_ms)
        return self._about_jobs(requests, check.held, lambda part, home: reports.extend(part, lease_ms, home))

    def update(self, requests: Sequence[Update]) -> AskedMany[Updated]:
        """Progress, or a new payload, from the holder of the lease."""
        return self._about_jobs(requests, lambda one: check.update(one, self._payload_max), reports.update)

    def emit(self, requests: Sequence[Emit]) -> AskedMany[None]:
        """Values for those who follow, from the holder of the lease; nothing is kept when nobody does."""
        return self._about_jobs(requests, check.emit, reports.emit)

    def finish(self, requests: Sequence[Finish]) -> AskedMany[Finished]:
        """Ends jobs well. One whose members have not all ended hands over to them instead, and waits. One that repeats
        goes back to wait for its next run, unless the request says otherwise."""
        check.items("requests", requests)
        for request in requests:
            check.finish(request)
        return AskedMany(self.store, lambda: finish_flow(requests, self.store.partition_of_job))

    def fail(self, requests: Sequence[Fail]) -> AskedMany[Failed]:
        """Ends attempts badly: to be retried, for good, or as cancelled."""
        return self._about_jobs(requests, check.fail, reports.fail)

    def release(self, requests: Sequence[Held]) -> AskedMany[str]:
        """Gives jobs back unworked; no attempt is spent."""
        return self._about_jobs(requests, check.held, reports.release)
