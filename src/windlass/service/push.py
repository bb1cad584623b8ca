"""Push operations: lease jobs for workers with a URL, and report the outcome of pushes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from windlass.core.errors import BadInput
from windlass.core.operations import Dispatch, PushReport, Redirect
from windlass.core.validation.bounds import DURATION_MAX, TAKE_MAX
from windlass.core.validation.push import check_push_report, check_redirect
from windlass.core.validation.values import check_integer, check_list
from windlass.store.batching.partition_split import split_by_partition
from windlass.store.commands import push as calls
from windlass.store.commands.command import Flow
from windlass.store.operation import BatchOperation, Operation, WaitingOperation
from windlass.store.waiting import push as push_waiting

from .facet import Facet, send_or_raise


class PushOperations(Facet):
    def dispatch(self, *, most: int = 100, accept_ms: int = 10_000, wait_ms: int = 0) -> Operation[Dispatch]:
        """Lease jobs to registered workers that have a URL and free slots, the worker with the most free slots first.
        Each job must be pushed, and accepted within `accept_ms`. The call waits up to `wait_ms` for the first job, in
        one partition only (`within`)."""
        check_integer("most", most, 1, TAKE_MAX)
        check_integer("accept_ms", accept_ms, 1, DURATION_MAX)
        check_integer("wait_ms", wait_ms, 0, DURATION_MAX)
        return WaitingOperation(
            self.store,
            lambda: self._dispatch(most, accept_ms, wait_ms),
            lambda: self.store.run_sync(self._dispatch_flow(most, accept_ms)),
        )

    async def _dispatch(self, most: int, accept_ms: int, wait_ms: int) -> Dispatch:
        await self.store.open()
        if not wait_ms:
            return await self.store.run(self._dispatch_flow(most, accept_ms))
        if len(self.partition_scope) > 1:
            raise BadInput("A call can wait in one partition only: use service.within(partition).")
        return await push_waiting.dispatch_waiting(self.store, most, accept_ms, wait_ms, self.partition_scope[0])

    def _dispatch_flow(self, most: int, accept_ms: int) -> Flow[Dispatch]:
        found = Dispatch([], {}, None)
        for partition in self.partition_scope:
            if len(found.jobs) == most:
                break
            more = yield from push_waiting.dispatch_flow(most - len(found.jobs), accept_ms, partition)
            instants = [at for at in (found.next_due_at_ms, more.taken.next_due_at_ms) if at is not None]
            found = Dispatch(
                found.jobs + more.taken.jobs,
                found.workers | more.workers,
                min(instants, default=None),
                found.fixed_leases_ms | more.fixed_leases_ms,
            )
        return found

    def pushed(self, requests: Sequence[PushReport]) -> BatchOperation[calls.PushedState]:
        """Report the outcome of pushes. Jobs that were not accepted go back; no attempt is spent. A worker that does
        not know a name gets no job of that name until it registers again. A worker that cannot be reached gets no jobs
        for a while, and counts as lost after 10 s."""
        check_list("requests", requests)
        for request in requests:
            check_push_report(request)
        return BatchOperation(
            self.store,
            lambda: split_by_partition(requests, lambda request: self.store.partition_of_job(request.id), calls.pushed),
        )

    def redirect(self, request: Redirect) -> Operation[Dispatch | Literal["later", "no_worker"]]:
        """Lease a job that its worker refused to another worker. `later`: the other workers have no free slot, and the
        job has gone back for a moment. `no_worker`: all workers have refused it, and the caller must end the
        attempt."""
        check_redirect(request)
        return Operation(
            self.store,
            lambda: send_or_raise(calls.redirect(request, self.store.partition_of_job(request.id))),
        )
