"""Callbacks owed by jobs that have ended: whoever delivers them takes, settles or retries; people look."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.callbacks.callback import CALLBACKS_MAX, DebtPage, Debts, HeldDebt, JobCallbacks, Room, Undelivered
from windlass.core.validation import callbacks as callbacks_validation
from windlass.core.validation import jobs as check
from windlass.store.batching.partition_split import scatter
from windlass.store.commands import callbacks
from windlass.store.operation import Asked, AskedMany, AskedToWait
from windlass.store.waiting import callbacks as callbacks_waiting
from windlass.store.waiting.callbacks import Opening

from .facet import Asking, ask

LOOKED_AT_MAX = 10_000  # callbacks of all jobs, to find those of one


class Notifying(Asking):
    def take_callbacks(
        self, *, most: int = 10, lease_ms: int = 60_000, wait_ms: int = 0, opening: Opening | None = None
    ) -> Asked[Debts]:
        """Leases callbacks that are due; waits up to `wait_ms` for the first. One that is neither settled nor retried
        is due again when its lease is over: a receiver may hear of an end more than once. `opening`, instead of `most`:
        how many of which destination, asked at each look."""
        check.whole("most", most, 1, CALLBACKS_MAX)
        check.whole("lease_ms", lease_ms, 1, check.DURATION_MAX)
        check.whole("wait_ms", wait_ms, 0, check.DURATION_MAX)
        if opening is None:
            opening = Opening(lambda: Room(most=most))
        check.instance("opening", opening, Opening)
        callbacks_validation.room(opening.room())
        return AskedToWait(
            self.store,
            lambda: callbacks_waiting.take_waiting(self.store, lambda: self.homes, opening, lease_ms, wait_ms),
            lambda: callbacks_waiting.take_now(self.store, lambda: self.homes, opening.room(), lease_ms, wait_ms),
        )

    def settle_callbacks(self, requests: Sequence[HeldDebt]) -> AskedMany[None]:
        """They were delivered: nothing is owed any more."""
        check.items("requests", requests)
        for request in requests:
            callbacks_validation.held_debt(request)
        return AskedMany(
            self.store, lambda: scatter(requests, lambda one: self._home_of_debt(one.id), callbacks.settle_callbacks)
        )

    def retry_callbacks(self, requests: Sequence[Undelivered]) -> AskedMany[str]:
        """They could not be delivered: `owed` again after a delay, or `given_up` and kept for people to see."""
        check.items("requests", requests)
        for request in requests:
            callbacks_validation.undelivered(request)
        return AskedMany(
            self.store, lambda: scatter(requests, lambda one: self._home_of_debt(one.id), callbacks.retry_callbacks)
        )

    def callbacks(self, *, given_up: bool = False, most: int = 50, cursor: str = "") -> Asked[DebtPage]:
        """One page of what is owed, the next due first; or of what was given up, the oldest first."""
        check.claim("given_up", given_up)
        check.whole("most", most, 1, CALLBACKS_MAX)
        check.text("cursor", cursor, check.CURSOR_MAX, may_be_empty=True)
        return Asked(self.store, lambda: callbacks_waiting.page_flow(self.store.partitions, given_up, most, cursor))

    def redeliver(self, ids: Sequence[bytes]) -> AskedMany[str]:
        """Callbacks that were given up are due at once, with all attempts anew. With the ids of callbacks; or of jobs,
        for all that were given up of each."""
        check.items("ids", ids)
        for one in ids:
            callbacks_validation.debt_or_job_id(one)
        return AskedMany(self.store, lambda: scatter(ids, self._home_of_debt, callbacks.redeliver))

    def job_callbacks(self, job_id: bytes) -> Asked[JobCallbacks]:
        """Callbacks of one job that are owed or were given up; what was delivered is gone."""
        check.id_bytes("id", job_id)
        home = self.store.partition_of_job
        return Asked(self.store, lambda: ask(callbacks.job_callbacks(job_id, LOOKED_AT_MAX, home(job_id))))

    def _home_of_debt(self, debt: bytes) -> int:
        return self.store.partition_of_job(debt[:16])
