"""Lease operations: take jobs, and reports of lease holders."""

from __future__ import annotations

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
from windlass.pauses import random_fraction
from windlass.store.commands import logs as logs_commands
from windlass.store.commands import reports
from windlass.store.commands.command import Flow
from windlass.store.limit_matcher import complete_jobs, update_jobs
from windlass.store.operation import BatchOperation, Operation, WaitingOperation
from windlass.store.waiting import take as take_waiting

from .facet import Facet
from .repeat import finish_and_take_flow, finish_flow


class LeaseOperations(Facet):
    def take(self, request: Take, *, receive: take_waiting.Receive | None = None) -> Operation[Taken]:
        """Lease jobs; wait up to `wait_ms` for the first one.

        `receive` is called with a job that another process hands over directly (`by_hand`), as soon as it arrives. If
        it returns True, it has accepted the job, and the take ends without jobs."""
        check_take(request)
        return WaitingOperation(
            self.store,
            lambda: take_waiting.take_waiting(self.store, request, lambda: self._parts_for(request), receive),
            lambda: take_waiting.take_waiting_sync(self.store, request, lambda: self._parts_for(request)),
        )

    def _parts_for(self, request: Take) -> list[take_waiting.PartitionQueues]:
        order = list(request.queues)
        if request.weights:
            # A random key raised to 1/weight puts each queue first in proportion to its weight.
            weights = dict(zip(order, request.weights, strict=True))
            keys = {queue: random_fraction() ** (1 / weight) for queue, weight in weights.items()}
            order.sort(key=keys.__getitem__, reverse=True)
        return take_waiting.group_by_partition(self.store, order)

    def finish_and_take(
        self, finishes: Sequence[Finish], failures: Sequence[Fail], request: Take
    ) -> Operation[FinishedAndTaken]:
        """Report outcomes and take the next jobs, in one call if all are in one partition. This does not wait."""
        check_list("finishes", finishes)
        check_list("failures", failures)
        check_finishes(finishes)
        for failed in failures:
            check_fail(failed)
        check_take(request)
        if len(finishes) + len(failures) > TAKE_MAX:
            raise BadInput(f"finish_and_take reports at most {TAKE_MAX} outcomes.")
        return WaitingOperation(
            self.store,
            lambda: take_waiting.take_at_once(self.store, self._finish_and_take_flow(finishes, failures, request)),
            lambda: self.store.run_sync(self._finish_and_take_flow(finishes, failures, request)),
        )

    def _finish_and_take_flow(
        self, finishes: Sequence[Finish], failures: Sequence[Fail], request: Take
    ) -> Flow[FinishedAndTaken]:
        return (yield from finish_and_take_flow(self.store, request, self._parts_for(request), finishes, failures))

    def accept(self, requests: Sequence[LeaseRef], *, lease_ms: int = 0) -> BatchOperation[int | None]:
        """Accept dispatched jobs and return their deadlines."""
        check_duration_or_forever("lease_ms", lease_ms)
        return self._batch_of_jobs(
            requests, check_lease_ref, lambda part, partition: reports.accept(part, lease_ms, partition)
        )

    def extend(self, requests: Sequence[LeaseRef], *, lease_ms: int = 0) -> BatchOperation[Extended]:
        """Extend many leases. The answers say which leases are lost and which jobs must stop."""
        check_duration_or_forever("lease_ms", lease_ms)
        return self._batch_of_jobs(
            requests, check_lease_ref, lambda part, partition: reports.extend(part, lease_ms, partition)
        )

    def update(self, requests: Sequence[Update]) -> BatchOperation[Updated]:
        """Set progress, a note or a new payload. Only the holder of the lease may do so."""
        check_list("requests", requests)
        for request in requests:
            check_update(request, self._payload_max)
        store = self.store
        return BatchOperation(
            store, lambda: update_jobs(store.limit_cache, requests, lambda request: store.partition_of_job(request.id))
        )

    def emit(self, requests: Sequence[Emit]) -> BatchOperation[None]:
        """Send values to the followers of jobs. Only the holder of the lease may do so. Without followers nothing is
        stored."""
        return self._batch_of_jobs(requests, check_emit, reports.emit)

    def log(self, requests: Sequence[Log]) -> BatchOperation[None]:
        """Append log lines of running code. Only the holder of the lease may do so. The last lines are kept as long as
        the job."""
        return self._batch_of_jobs(requests, check_log, logs_commands.log)

    def finish(self, requests: Sequence[Finish]) -> BatchOperation[FinishOutcome]:
        """Finish jobs. A job whose children have not all ended waits for them instead. A repeating job is scheduled for
        its next run, unless the request says otherwise."""
        check_list("requests", requests)
        check_finishes(requests)
        return BatchOperation(self.store, lambda: finish_flow(requests, self.store.partition_of_job))

    def complete_with_children(self, requests: Sequence[CompleteWithChildren]) -> BatchOperation[CompletionOutcome]:
        """End runs and replace the content of their jobs in one step, under guards: finished, failed, or to run again
        at another time. This is for dialects whose report has the content of the next run."""
        check_list("requests", requests)
        for request in requests:
            check_complete_with_children(request, self._payload_max)
        store = self.store
        return BatchOperation(
            store,
            lambda: complete_jobs(store.limit_cache, requests, lambda request: store.partition_of_job(request.id)),
        )

    def fail(self, requests: Sequence[Fail]) -> BatchOperation[FailOutcome]:
        """End attempts as failed: to be retried, for good, or as cancelled."""
        return self._batch_of_jobs(requests, check_fail, reports.fail)

    def release(self, requests: Sequence[LeaseRef]) -> BatchOperation[str]:
        """Give jobs back without work; no attempt is spent."""
        return self._batch_of_jobs(requests, check_lease_ref, reports.release)
