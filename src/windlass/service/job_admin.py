"""What people and producers do about jobs that exist."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from windlass.core.errors import Refusal
from windlass.core.operations import Edit, Edited
from windlass.core.validation.bounds import REASON_MAX
from windlass.core.validation.jobs import check_edit
from windlass.core.validation.values import check_boolean, check_id, check_list, check_text
from windlass.store.commands import job_admin
from windlass.store.commands.command import BatchCommand
from windlass.store.commands.limits import LimitMatch
from windlass.store.limit_matcher import edit_jobs, requeue_jobs
from windlass.store.operation import BatchOperation

from .facet import Facet


class JobAdminOperations(Facet):
    def cancel(
        self,
        ids: Sequence[bytes],
        *,
        reason: str = "cancelled",
        counts_waiting: bool = True,
        even_failed: bool = False,
        spares_running: bool = False,
    ) -> BatchOperation[str]:
        """`cancelled` at once when it waits; `requested` when it runs. Reaches the job's members when it ends. A parent
        that waits goes on after its last child; without `counts_waiting`, children that wait do not keep it.
        `even_failed`: a job that failed becomes cancelled too. `spares_running`: one that runs is left alone
        (`wrong_state`), unless others may take it over (`retake`): then it ends at once."""
        check_text("reason", reason, REASON_MAX)
        check_boolean("counts_waiting", counts_waiting)
        check_boolean("even_failed", even_failed)
        check_boolean("spares_running", spares_running)
        return self._about_ids(
            ids,
            lambda part, home: job_admin.cancel(part, reason, counts_waiting, even_failed, spares_running, home),
        )

    def wake(self, ids: Sequence[bytes]) -> BatchOperation[str]:
        """Ends the wait of jobs now, whatever they wait for: `queued`, `scheduled`, or `finished` for a group."""
        return self._about_ids(ids, job_admin.wake)

    def retry(self, ids: Sequence[bytes]) -> BatchOperation[str]:
        """Sends failed or cancelled jobs on their way again."""
        return self._revived(ids, job_admin.retry)

    def requeue(self, ids: Sequence[bytes], *, gives_attempt_back: bool = False) -> BatchOperation[str]:
        """Back into the queue from any state; a lease on the job ends."""
        check_boolean("gives_attempt_back", gives_attempt_back)
        return self._revived(
            ids, lambda part, version, home: job_admin.requeue(part, gives_attempt_back, version, home)
        )

    def _revived(
        self, ids: Sequence[bytes], build: Callable[[Sequence[LimitMatch], int, int], BatchCommand[str | Refusal]]
    ) -> BatchOperation[str]:
        check_list("ids", ids)
        for job_id in ids:
            check_id("id", job_id)
        store = self.store
        return BatchOperation(store, lambda: requeue_jobs(store.limit_cache, ids, store.partition_of_job, build))

    def edit(self, requests: Sequence[Edit]) -> BatchOperation[Edited]:
        """Changes waiting jobs: name, priority, time, payload."""
        check_list("requests", requests)
        for request in requests:
            check_edit(request, self._payload_max)
        store = self.store
        return BatchOperation(
            store, lambda: edit_jobs(store.limit_cache, requests, lambda one: store.partition_of_job(one.id))
        )

    def delete(
        self, ids: Sequence[bytes], *, even_leased: bool = False, even_waiting: bool = True
    ) -> BatchOperation[str]:
        """Removes jobs and all that belongs to them."""
        check_boolean("even_leased", even_leased)
        check_boolean("even_waiting", even_waiting)
        return self._about_ids(ids, lambda part, home: job_admin.delete(part, even_leased, even_waiting, home))
