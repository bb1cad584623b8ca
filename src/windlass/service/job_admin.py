"""Operations of people and producers on existing jobs: cancel, wake, retry, requeue, edit, delete."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from windlass.core.durable import Rewind
from windlass.core.errors import Refusal
from windlass.core.job import Timeline
from windlass.core.operations import Edit, Edited
from windlass.core.states import State
from windlass.core.validation.bounds import REASON_MAX
from windlass.core.validation.jobs import check_edit
from windlass.core.validation.values import check_boolean, check_id, check_list, check_text
from windlass.store.batching.partition_split import split_by_partition
from windlass.store.commands import job_admin, jobs
from windlass.store.commands.command import BatchCommand, Flow
from windlass.store.commands.durable import steps
from windlass.store.commands.limits import LimitMatch
from windlass.store.limit_matcher import edit_jobs, requeue_jobs
from windlass.store.operation import BatchOperation

from .facet import Facet

_RETRIED_STATES = (State.FAILED, State.CANCELLED)


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
        """Cancel jobs. A waiting job is `cancelled` at once; for a running job the stop is `requested`. When the job
        ends, its children are cancelled too. A waiting parent continues after its last child; without
        `counts_waiting`, it does not wait for children that wait.

        `even_failed` also cancels failed jobs. `spares_running` leaves running jobs alone (`wrong_state`), except
        redeliverable ones (`retake`), which end at once."""
        check_text("reason", reason, REASON_MAX)
        check_boolean("counts_waiting", counts_waiting)
        check_boolean("even_failed", even_failed)
        check_boolean("spares_running", spares_running)
        return self._batch_of_ids(
            ids,
            lambda part, partition: job_admin.cancel(
                part, reason, counts_waiting, even_failed, spares_running, partition
            ),
        )

    def wake(self, ids: Sequence[bytes]) -> BatchOperation[str]:
        """End the wait of jobs now, whatever they wait for. Answers: `queued`, `scheduled`, or `finished` for a
        group."""
        return self._batch_of_ids(ids, job_admin.wake)

    def retry(self, ids: Sequence[bytes], *, fresh: bool = False) -> BatchOperation[str]:
        """Queue failed or cancelled jobs again: `queued`, or `waiting` if they need jobs that have not ended. Jobs that
        ended because of one of them wait for it again. A job that ended because of another job is refused: retry that
        job.

        Stored steps are kept, except those that failed or timed out. `fresh` drops all steps first."""
        check_boolean("fresh", fresh)
        again = self._requeue(ids, job_admin.retry)
        return again if not fresh else BatchOperation(self.store, lambda: self._retry_fresh_flow(ids))

    def _retry_fresh_flow(self, ids: Sequence[bytes]) -> Flow[list[str | Refusal]]:
        """Drop the steps of jobs that a retry accepts, then retry. A job in another state keeps its steps."""
        partition_of = self.store.partition_of_job
        replies = yield from split_by_partition(ids, partition_of, jobs.job)
        timelines = [jobs.timeline(job_id, reply) for job_id, reply in zip(ids, replies, strict=True)]
        ended = [timeline.job for timeline in timelines if isinstance(timeline, Timeline)]
        rewinds = [Rewind(id=job.id) for job in ended if job.is_durable and job.state in _RETRIED_STATES]
        yield from split_by_partition(rewinds, lambda rewind: partition_of(rewind.id), steps.rewind)
        return (yield from requeue_jobs(self.store.limit_cache, ids, partition_of, job_admin.retry))

    def requeue(self, ids: Sequence[bytes], *, gives_attempt_back: bool = False) -> BatchOperation[str]:
        """Put jobs of any state back into their queue. A lease on the job ends."""
        check_boolean("gives_attempt_back", gives_attempt_back)
        return self._requeue(
            ids, lambda part, version, partition: job_admin.requeue(part, gives_attempt_back, version, partition)
        )

    def _requeue(
        self, ids: Sequence[bytes], build: Callable[[Sequence[LimitMatch], int, int], BatchCommand[str | Refusal]]
    ) -> BatchOperation[str]:
        check_list("ids", ids)
        for job_id in ids:
            check_id("id", job_id)
        store = self.store
        return BatchOperation(store, lambda: requeue_jobs(store.limit_cache, ids, store.partition_of_job, build))

    def edit(self, requests: Sequence[Edit]) -> BatchOperation[Edited]:
        """Change the name, priority, time or payload of waiting jobs."""
        check_list("requests", requests)
        for request in requests:
            check_edit(request, self._payload_max)
        store = self.store
        return BatchOperation(
            store, lambda: edit_jobs(store.limit_cache, requests, lambda request: store.partition_of_job(request.id))
        )

    def delete(
        self, ids: Sequence[bytes], *, even_leased: bool = False, even_waiting: bool = True
    ) -> BatchOperation[str]:
        """Remove jobs and all their data."""
        check_boolean("even_leased", even_leased)
        check_boolean("even_waiting", even_waiting)
        return self._batch_of_ids(
            ids, lambda part, partition: job_admin.delete(part, even_leased, even_waiting, partition)
        )
