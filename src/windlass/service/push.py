"""Jobs that are pushed to workers: who pushes leases them, and says what the pushes came to."""

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
        """Leases jobs to registered workers that have a URL and room, the one with most free room first; each is to be
        pushed, and accepted within `accept_ms`. Waits up to `wait_ms` for the first, in one partition (`within`)."""
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
        if len(self.homes) > 1:
            raise BadInput("One waits in one partition: ask service.within(partition).")
        return await push_waiting.dispatch_waiting(self.store, most, accept_ms, wait_ms, self.homes[0])

    def _dispatch_flow(self, most: int, accept_ms: int) -> Flow[Dispatch]:
        found = Dispatch([], {}, None)
        for home in self.homes:
            if len(found.jobs) == most:
                break
            more = yield from push_waiting.dispatch_flow(most - len(found.jobs), accept_ms, home)
            instants = [at for at in (found.next_due_at_ms, more.taken.next_due_at_ms) if at is not None]
            found = Dispatch(found.jobs + more.taken.jobs, found.workers | more.workers, min(instants, default=None))
        return found

    def pushed(self, requests: Sequence[PushReport]) -> BatchOperation[calls.PushedState]:
        """What pushes came to. Jobs that were not accepted go back, no attempt spent; a worker that does not know a
        name is not offered it again until it registers anew, one that cannot be reached is left alone for a while,
        and counts as lost after 10 s."""
        check_list("requests", requests)
        for request in requests:
            check_push_report(request)
        return BatchOperation(
            self.store,
            lambda: split_by_partition(requests, lambda one: self.store.partition_of_job(one.id), calls.pushed),
        )

    def redirect(self, request: Redirect) -> Operation[Dispatch | Literal["later", "nobody"]]:
        """A job that its worker refused is leased to another one. `later`: the others have no room, and it has gone
        back for a moment; `nobody`: all have refused it, and it is for the caller to end the attempt."""
        check_redirect(request)
        return Operation(
            self.store,
            lambda: send_or_raise(calls.redirect(request, self.store.partition_of_job(request.id))),
        )
