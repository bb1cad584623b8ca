"""Operations on pending callbacks of ended jobs: take, settle and retry for deliverers; list and redeliver for
people."""

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
from windlass.store.waiting.callbacks import CapacitySource

from .facet import Facet, send

LOOKED_AT_MAX = 10_000  # callbacks that are read to find the callbacks of one job


class CallbackOperations(Facet):
    def take_callbacks(
        self, *, most: int = 10, lease_ms: int = 60_000, wait_ms: int = 0, capacity: CapacitySource | None = None
    ) -> Operation[PendingCallbacks]:
        """Lease due callbacks; wait up to `wait_ms` for the first. A callback that is neither settled nor retried is
        due again when its lease expires, so a receiver may get it more than once. `capacity`, instead of `most`: how
        many callbacks of which destination to take, read at each poll."""
        check_integer("most", most, 1, CALLBACKS_MAX)
        check_integer("lease_ms", lease_ms, 1, DURATION_MAX)
        check_integer("wait_ms", wait_ms, 0, DURATION_MAX)
        if capacity is None:
            capacity = CapacitySource(lambda: DeliveryCapacity(most=most))
        check_instance("capacity", capacity, CapacitySource)
        check_delivery_capacity(capacity.current())
        return WaitingOperation(
            self.store,
            lambda: callbacks_waiting.take_waiting(
                self.store, lambda: self.partition_scope, capacity, lease_ms, wait_ms
            ),
            lambda: callbacks_waiting.take_sync(
                self.store, lambda: self.partition_scope, capacity.current(), lease_ms, wait_ms
            ),
        )

    def settle_callbacks(self, requests: Sequence[LeasedCallback]) -> BatchOperation[None]:
        """Remove delivered callbacks."""
        check_list("requests", requests)
        for request in requests:
            check_leased_callback(request)
        return BatchOperation(
            self.store,
            lambda: split_by_partition(
                requests, lambda request: self._partition_of_callback(request.id), callbacks.settle_callbacks
            ),
        )

    def retry_callbacks(self, requests: Sequence[FailedDelivery]) -> BatchOperation[str]:
        """Record failed deliveries. Answers: `owed` (due again after a delay) or `given_up` (kept for inspection)."""
        check_list("requests", requests)
        for request in requests:
            check_failed_delivery(request)
        return BatchOperation(
            self.store,
            lambda: split_by_partition(
                requests, lambda request: self._partition_of_callback(request.id), callbacks.retry_callbacks
            ),
        )

    def callbacks(self, *, given_up: bool = False, most: int = 50, cursor: str = "") -> Operation[PendingCallbackPage]:
        """Return one page of pending callbacks, the next due first; or of given-up callbacks, the oldest first."""
        check_boolean("given_up", given_up)
        check_integer("most", most, 1, CALLBACKS_MAX)
        check_text("cursor", cursor, CURSOR_MAX, may_be_empty=True)
        return Operation(self.store, lambda: callbacks_waiting.page_flow(self.store.partitions, given_up, most, cursor))

    def redeliver(self, ids: Sequence[bytes]) -> BatchOperation[str]:
        """Make given-up callbacks due at once, with a full set of attempts. Ids are of callbacks, or of jobs for all
        given-up callbacks of each."""
        check_list("ids", ids)
        for callback_id in ids:
            check_callback_or_job_id(callback_id)
        return BatchOperation(
            self.store, lambda: split_by_partition(ids, self._partition_of_callback, callbacks.redeliver)
        )

    def job_callbacks(self, job_id: bytes) -> Operation[JobCallbacks]:
        """Return the pending and given-up callbacks of one job. Delivered callbacks are not stored."""
        check_id("id", job_id)
        partition = self.store.partition_of_job
        return Operation(self.store, lambda: send(callbacks.job_callbacks(job_id, LOOKED_AT_MAX, partition(job_id))))

    def _partition_of_callback(self, callback_id: bytes) -> int:
        return self.store.partition_of_job(callback_id[:16])
