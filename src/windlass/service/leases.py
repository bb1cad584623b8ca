"""Jobs are taken, and those who hold them report."""

from __future__ import annotations

import random
from collections.abc import Sequence

from windlass.core.errors import BadInput
from windlass.core.event import Emit
from windlass.core.log import Log
from windlass.core.operations import (
    CompleteWithChildren,
    CompletionOutcome,
    Extended,
    Fail,
    FailOutcome,
    Finish,
    FinishedAndTaken,
    FinishOutcome,
    LeaseRef,
    Take,
    Taken,
    Update,
    Updated,
)
from windlass.core.validation.bounds import TAKE_MAX
from windlass.core.validation.lease_reports import (
    check_complete_with_children,
    check_emit,
    check_fail,
    check_finishes,
    check_lease_ref,
    check_update,
)
from windlass.core.validation.logs import check_log
from windlass.core.validation.takes import check_take
from windlass.core.validation.values import check_duration_or_forever, check_list
from windlass.store.commands import logs as logs_commands
from windlass.store.commands import reports
from windlass.store.commands.command import Flow
from windlass.store.limit_matcher import complete_jobs
from windlass.store.operation import BatchOperation, Operation, WaitingOperation
from windlass.store.waiting import take as take_waiting

from .facet import Facet
from .repeat import finish_and_take_flow, finish_flow


class LeaseOperations(Facet):
    def take(self, request: Take, *, receive: take_waiting.Receive | None = None) -> Operation[Taken]:
        """Leases jobs; waits up to `wait_ms` for the first one. `receive`: who is given what is handed over (`by_hand`)
        as soon as that is heard; if it answers True, the take ends with nothing."""
        check_take(request)
        return WaitingOperation(
            self.store,
            lambda: take_waiting.take_waiting(self.store, request, lambda: self._parts_for(request), receive),
            lambda: take_waiting.take_waiting_now(self.store, request, lambda: self._parts_for(request)),
        )

    def _parts_for(self, request: Take) -> list[take_waiting.Part]:
        order = list(request.queues)
        if request.weights:
            # A random key raised to 1/weight puts each queue first in proportion to its weight.
            weights = dict(zip(order, request.weights, strict=True))
            keys = {queue: random.random() ** (1 / weight) for queue, weight in weights.items()}  # noqa: S311
            order.sort(key=keys.__getitem__, reverse=True)
        return take_waiting.parts_of(self.store, order)

    def finish_and_take(
        self, finishes: Sequence[Finish], failures: Sequence[Fail], request: Take
    ) -> Operation[FinishedAndTaken]:
        """Reports outcomes and takes the next jobs: in one call when all are in one partition. Does not wait."""
        check_list("finishes", finishes)
        check_list("failures", failures)
        check_finishes(finishes)
        for failed in failures:
            check_fail(failed)
        check_take(request)
        if len(finishes) + len(failures) > TAKE_MAX:
            raise BadInput(f"An exchange reports at most {TAKE_MAX} outcomes.")
        return WaitingOperation(
            self.store,
            lambda: take_waiting.take_at_once(self.store, self._exchange_flow(finishes, failures, request)),
            lambda: self.store.run_sync(self._exchange_flow(finishes, failures, request)),
        )

    def _exchange_flow(
        self, finishes: Sequence[Finish], failures: Sequence[Fail], request: Take
    ) -> Flow[FinishedAndTaken]:
        return (yield from finish_and_take_flow(self.store, request, self._parts_for(request), finishes, failures))

    def accept(self, requests: Sequence[LeaseRef], *, lease_ms: int = 0) -> BatchOperation[int | None]:
        """Takes on dispatched jobs; answers their deadlines."""
        check_duration_or_forever("lease_ms", lease_ms)
        return self._about_jobs(requests, check_lease_ref, lambda part, home: reports.accept(part, lease_ms, home))

    def extend(self, requests: Sequence[LeaseRef], *, lease_ms: int = 0) -> BatchOperation[Extended]:
        """Heartbeat of many leases; says which are lost and which jobs are asked to stop."""
        check_duration_or_forever("lease_ms", lease_ms)
        return self._about_jobs(requests, check_lease_ref, lambda part, home: reports.extend(part, lease_ms, home))

    def update(self, requests: Sequence[Update]) -> BatchOperation[Updated]:
        """Progress, a note, or a new payload, from the holder of the lease."""
        return self._about_jobs(requests, lambda one: check_update(one, self._payload_max), reports.update)

    def emit(self, requests: Sequence[Emit]) -> BatchOperation[None]:
        """Values for those who follow, from the holder of the lease; nothing is kept when nobody does."""
        return self._about_jobs(requests, check_emit, reports.emit)

    def log(self, requests: Sequence[Log]) -> BatchOperation[None]:
        """Lines of running code, from the holder of the lease; the last ones are kept as long as the job is."""
        return self._about_jobs(requests, check_log, logs_commands.log)

    def finish(self, requests: Sequence[Finish]) -> BatchOperation[FinishOutcome]:
        """Ends jobs well. One whose members have not all ended hands over to them instead, and waits. One that repeats
        goes back to wait for its next run, unless the request says otherwise."""
        check_list("requests", requests)
        check_finishes(requests)
        return BatchOperation(self.store, lambda: finish_flow(requests, self.store.partition_of_job))

    def complete_with_children(self, requests: Sequence[CompleteWithChildren]) -> BatchOperation[CompletionOutcome]:
        """Ends runs with another content, in one step and under guards: well, badly, or to go on at another time. For
        dialects whose report carries the content of the next run."""
        check_list("requests", requests)
        for request in requests:
            check_complete_with_children(request, self._payload_max)
        store = self.store
        return BatchOperation(
            store, lambda: complete_jobs(store.limit_cache, requests, lambda one: store.partition_of_job(one.id))
        )

    def fail(self, requests: Sequence[Fail]) -> BatchOperation[FailOutcome]:
        """Ends attempts badly: to be retried, for good, or as cancelled."""
        return self._about_jobs(requests, check_fail, reports.fail)

    def release(self, requests: Sequence[LeaseRef]) -> BatchOperation[str]:
        """Gives jobs back unworked; no attempt is spent."""
        return self._about_jobs(requests, check_lease_ref, reports.release)
