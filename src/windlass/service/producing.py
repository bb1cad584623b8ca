"""Jobs come in."""

from __future__ import annotations

from collections.abc import Sequence

from ..core import callback_validation
from ..core import validation as check
from ..core.errors import BadInput, CrossPartition, Refusal
from ..core.job import Durability, NewJob
from ..core.requests import Enqueued
from ..store.asked import AskedMany
from ..store.calls import enqueue
from ..store.calls.call import Flow, Now
from ..store.matching import matched
from ..store.scatter import scatter
from .asking import Asking


class Producing(Asking):
    def enqueue(self, jobs: Sequence[NewJob], *, durability: Durability | None = None) -> AskedMany[Enqueued]:
        """Accepts jobs. Answers in order; an id or a unique key that is there already is no error."""
        check.items("jobs", jobs)
        for job in jobs:
            check.new_job(job, self._payload_max)
            if job.callback is not None:
                callback_validation.callback(job.callback)
        level = durability or self.store.durability
        if level not in ("memory", "fsync", "replica"):
            raise BadInput(f"durability must be memory, fsync or replica, not {level!r}.")
        made = self.store.new_ids([job.queue for job in jobs])
        with_ids = [(job.id or made_id, job) for job, made_id in zip(jobs, made, strict=True)]
        return AskedMany(self.store, lambda: self._enqueue_flow(with_ids, level))

    def _enqueue_flow(self, jobs: Sequence[tuple[bytes, NewJob]], level: Durability) -> Flow[list[Enqueued | Refusal]]:
        now_ms = 0
        if any(job.delay_ms or job.expires_in_ms for _, job in jobs):
            now_ms = yield Now()
        known = self.store.known_limits
        confirmed = None if level == "memory" else level

        def attempt(part: Sequence[tuple[bytes, NewJob]]) -> Flow[list[Enqueued | Refusal]]:
            return scatter(
                part,
                lambda one: self._home_of(*one),
                lambda some, home: enqueue.enqueue(some, now_ms, known.table(home), home, confirmed),
            )

        return (yield from matched(known, jobs, lambda one: self._home_of(*one), attempt))

    def _home_of(self, job_id: bytes, job: NewJob) -> int:
        if self.store.partitions == 1:
            return 0
        home = self.store.partition_of_queue(job.queue)
        if self.store.partition_of_job(job_id) != home:
            raise CrossPartition(
                f"The id carries another partition than queue {job.queue!r}; let Windlass make the id."
            )
        if any(self.store.partition_of_job(other) != home for other in (job.parent, *job.after) if other):
            raise CrossPartition(
                "A job and its parent, and those it waits for, must lie in one partition: "
                "give their queues a common {tag}."
            )
        return home
