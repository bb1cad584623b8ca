"""Callbacks owed by jobs that have ended: whoever delivers them takes, settles or retries; people look."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.callbacks.callback import (
    CALLBACKS_MAX,
    DeliveryCapacity,
    FailedDelivery,
    JobCallbacks,
    LeasedCallback,
    PendingCallbackPage,
    PendingCallbacks,
)
from windlass.core.validation.bounds import CURSOR_MAX, DURATION_MAX
from windlass.core.validation.callbacks import (
    check_callback_or_job_id,
    check_delivery_capacity,
    check_failed_delivery,
    check_leased_callback,
)
from windlass.core.validation.values import (
    check_boolean,
    check_id,
    check_instance,
    check_integer,
    check_list,
    check_text,
)
from windlass.store.batching.partition_split import split_by_partition
from windlass.store.commands import callbacks
from windlass.store.operation import BatchOperation, Operation, WaitingOperation
from windlass.store.waiting import callbacks as callbacks_waiting
from windlass.store.waiting.callbacks import Opening

from .facet import Facet, send

LOOKED_AT_MAX = 10_000  # callbacks of all jobs, to find those of one


class CallbackOperations(Facet):
    def take_callbacks(
        self, *, most: int = 10, lease_ms: int = 60_000, wait_ms: int = 0, opening: Opening | None = None
    ) -> Operation[PendingCallbacks]:
        """Leases callbacks that are due; waits up to `wait_ms` for the first. One that is neither settled nor retried
        is due again when its lease is over: a receiver may hear of an end more than once. `opening`, instead of `most`:
        how many of which destination, asked at each look."""
        check_integer("most", most, 1, CALLBACKS_MAX)
        check_integer("lease_ms", lease_ms, 1, DURATION_MAX)
        check_integer("wait_ms", wait_ms, 0, DURATION_MAX)
        if opening is None:
            opening = Opening(lambda: DeliveryCapacity(most=most))
        check_instance("opening", opening, Opening)
        check_delivery_capacity(opening.room())
        return WaitingOperation(
            self.store,
            lambda: callbacks_waiting.take_waiting(self.store, lambda: self.homes, opening, lease_ms, wait_ms),
            lambda: callbacks_waiting.take_now(self.store, lambda: self.homes, opening.room(), lease_ms, wait_ms),
        )

    def settle_callbacks(self, requests: Sequence[LeasedCallback]) -> BatchOperation[None]:
        """They were delivered: nothing is owed any more."""
        check_list("requests", requests)
        for request in requests:
            check_leased_callback(request)
        return BatchOperation(
            self.store,
            lambda: split_by_partition(requests, lambda one: self._home_of_debt(one.id), callbacks.settle_callbacks),
        )

    def retry_callbacks(self, requests: Sequence[FailedDelivery]) -> BatchOperation[str]:
        """They could not be delivered: `owed` again after a delay, or `given_up` and kept for people to see."""
        check_list("requests", requests)
        for request in requests:
            check_failed_delivery(request)
        return BatchOperation(
            self.store,
            lambda: split_by_partition(requests, lambda one: self._home_of_debt(one.id), callbacks.retry_callbacks),
        )

    def callbacks(self, *, given_up: bool = False, most: int = 50, cursor: str = "") -> Operation[PendingCallbackPage]:
        """One page of what is owed, the next due first; or of what was given up, the oldest first."""
        check_boolean("given_up", given_up)
        check_integer("most", most, 1, CALLBACKS_MAX)
        check_text("cursor", cursor, CURSOR_MAX, may_be_empty=True)
        return Operation(self.store, lambda: callbacks_waiting.page_flow(self.store.partitions, given_up, most, cursor))

    def redeliver(self, ids: Sequence[bytes]) -> BatchOperation[str]:
        """Callbacks that were given up are due at once, with all attempts anew. With the ids of callbacks; or of jobs,
        for all that were given up of each."""
        check_list("ids", ids)
        for one in ids:
            check_callback_or_job_id(one)
        return BatchOperation(self.store, lambda: split_by_partition(ids, self._home_of_debt, callbacks.redeliver))

    def job_callbacks(self, job_id: bytes) -> Operation[JobCallbacks]:
        """Callbacks of one job that are owed or were given up; what was delivered is gone."""
        check_id("id", job_id)
        home = self.store.partition_of_job
        return Operation(self.store, lambda: send(callbacks.job_callbacks(job_id, LOOKED_AT_MAX, home(job_id))))

    def _home_of_debt(self, debt: bytes) -> int:
        return self.store.partition_of_job(debt[:16])
