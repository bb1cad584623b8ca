"""Enqueue operations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

from windlass.core.errors import BadInput, CrossPartition, Refusal, TooLarge
from windlass.core.ids import numbered_id
from windlass.core.job import Blob, Codec, Durability, NewJob
from windlass.core.job_template import PreparedJob, prepare_single
from windlass.core.operations import Enqueued
from windlass.core.text.codecs import has_unreadable_number
from windlass.core.validation.bounds import FLOW_AFTER_MAX, WHOLE_MAX
from windlass.core.validation.callbacks import check_callback
from windlass.core.validation.jobs import check_new_job
from windlass.core.validation.limits import check_cap
from windlass.core.validation.values import check_id, check_list, check_new_blob
from windlass.store.batching.fast_enqueue import FastEnqueue
from windlass.store.batching.partition_split import run_in_parts, split_by_partition
from windlass.store.commands import enqueue
from windlass.store.commands.command import BYTES_MAX, BatchCommand, EngineTime, Flow
from windlass.store.limit_matcher import run_matched
from windlass.store.operation import BatchOperation, Operation

from .facet import Facet
from .single_enqueue import SingleEnqueue

_JSON = Codec.JSON  # on the fast path, an attribute of an enum would cost as much as the rest of the check
Entry: TypeAlias = tuple[bytes, PreparedJob]  # a job with its id


class EnqueueOperations(Facet):
    # A cached_property would make every attribute of the service slower to read.
    _fast_enqueue: FastEnqueue | None = None

    def enqueue(
        self, jobs: Sequence[NewJob | PreparedJob], *, durability: Durability | None = None, whole: bool = False
    ) -> BatchOperation[Enqueued]:
        """Enqueue jobs and return the answers in their order. An id or a unique key that exists already is no error.

        `whole` accepts all jobs or none, in one atomic step. If none is accepted, all have the same refusal."""
        checked = self._check_enqueue(jobs, whole)
        level = _check_durability(durability or self.store.durability)
        with_ids: list[Entry] = []
        return BatchOperation(self.store, lambda: self._enqueue_flow(checked, with_ids, level, whole))

    def _check_enqueue(self, jobs: Sequence[NewJob | PreparedJob], whole: bool) -> list[PreparedJob]:
        check_list("jobs", jobs)
        checked = self._check_all(jobs, may_be_flow=whole)
        if whole:
            _check_whole(checked)
            _check_flows(checked)
        return checked

    def enqueue_numbered(
        self, jobs: Sequence[NewJob | PreparedJob], *, durability: Durability | None = None
    ) -> BatchOperation[Enqueued]:
        """Enqueue jobs without ids. Their ids are made of consecutive numbers that the engine reserves in the same
        step.

        Unlike `enqueue`, running this operation twice enqueues the jobs twice."""
        check_list("jobs", jobs)
        checked = self._check_all(jobs)
        if any(job.id or job.template.job.id for job in checked):
            raise BadInput("A job that gets a number must have no id of its own: the number becomes its id.")
        level = _check_durability(durability or self.store.durability)
        return BatchOperation(self.store, lambda: self._enqueue_numbered_flow(checked, level))

    def _enqueue_numbered_flow(self, jobs: Sequence[PreparedJob], level: Durability) -> Flow[list[Enqueued | Refusal]]:
        without = {queue: numbered_id(0, self.store.partition_of_queue(queue)) for queue in _queues_of(jobs)}
        made = [(without[job.template.job.queue], job) for job in jobs]
        return (yield from self._enqueue_flow(jobs, made, level, False, reserves_numbers=True))

    def enqueue_one(self, job: NewJob | PreparedJob, *, durability: Durability | None = None) -> Operation[Enqueued]:
        """Enqueue one job; a refusal is raised. This is the fastest way for callers that block."""
        if type(job) is not PreparedJob or (durability or self.store.durability) != "memory":
            return self.enqueue((job,), durability=durability).one()
        if not self._is_checked(job):
            self._check_new_or_prepared(job)
        if self._fast_enqueue is None:
            self._fast_enqueue = FastEnqueue(self.store)
        return SingleEnqueue(self._fast_enqueue, job, self._enqueue_generally)

    def _enqueue_generally(self, job: PreparedJob) -> Operation[Enqueued]:
        return self.enqueue((job,), durability="memory").one()

    def _check_all(self, jobs: Sequence[NewJob | PreparedJob], *, may_be_flow: bool = False) -> list[PreparedJob]:
        """Check and prepare jobs. Most are prepared jobs of a template that was checked before: only their payload is
        checked here."""
        return [
            job if type(job) is PreparedJob and self._is_checked(job) else self._check_new_or_prepared(job, may_be_flow)
            for job in jobs
        ]

    def _is_checked(self, job: PreparedJob) -> bool:
        """Report whether a job needs no further check: the fast check of most jobs."""
        payload = job.payload
        if not job.template.is_checked or job.id != b"" or type(payload) is not Blob:
            return False
        data, codec = payload.data, payload.codec
        return (
            type(data) is bytes
            and type(codec) is Codec
            and len(data) <= self._payload_max
            and (codec is not _JSON or not has_unreadable_number(data))
        )

    def _check_new_or_prepared(self, job: NewJob | PreparedJob, may_be_flow: bool = False) -> PreparedJob:
        if type(job) is PreparedJob:
            check_new_blob("payload", job.payload, self._payload_max)
            if job.id != b"":
                check_id("id", job.id)
            if not job.template.is_checked:
                self._check_new(job.template.job, may_be_flow)
                # The next call may not be about a whole flow.
                job.template.is_checked = job.template.job.flow is None
            return job
        self._check_new(job, may_be_flow)  # type: ignore[arg-type]  # whatever it is
        return prepare_single(job)  # type: ignore[arg-type]

    def _check_new(self, job: NewJob, may_be_flow: bool) -> None:
        check_new_job(job, self._payload_max)
        if job.flow is not None and not may_be_flow:
            raise BadInput(
                f"{job.name}: jobs of a flow are enqueued together; pass all of them in one call with whole."
            )
        if job.callback is not None:
            check_callback(job.callback)
        if job.cap is not None:
            check_cap(job.cap)

    def _with_ids(self, jobs: Sequence[PreparedJob], made: list[Entry]) -> list[Entry]:
        """Give each job an id, once: an operation that runs twice is about the same jobs. The partition of a queue is
        known only now that the store is open."""
        if not made:
            without = [job.template.job.queue for job in jobs if not (job.id or job.template.job.id)]
            new = self.store.new_ids(without)
            if len(new) == len(jobs):
                made += zip(new, jobs, strict=True)
            else:
                following = iter(new)
                made += [(job.id or job.template.job.id or next(following), job) for job in jobs]
        return made

    def _enqueue_flow(
        self,
        given: Sequence[PreparedJob],
        made: list[Entry],
        level: Durability,
        whole: bool,
        *,
        reserves_numbers: bool = False,
    ) -> Flow[list[Enqueued | Refusal]]:
        jobs = self._with_ids(given, made)
        now_ms = 0
        if any([job.template.has_relative_times for job in given]):  # noqa: C419 (a list is quicker, and these are many)
            now_ms = yield EngineTime()
        if whole and len({self._partition_of(entry) for entry in jobs}) > 1:
            raise CrossPartition(
                "Jobs that are accepted as a whole must lie in one partition: give their queues a common {tag}."
            )
        known = self.store.limit_cache
        confirmed = None if level == "memory" else level

        def build(entries: Sequence[Entry], partition: int) -> BatchCommand[Enqueued | Refusal]:
            return enqueue.enqueue(
                entries,
                now_ms,
                known.table(partition),
                partition,
                confirmed,
                is_whole=whole,
                reserves_numbers=reserves_numbers,
            )

        def attempt(part: Sequence[Entry]) -> Flow[list[Enqueued | Refusal]]:
            is_simple = self.store.partitions == 1 and part
            return run_in_parts(build(part, 0)) if is_simple else split_by_partition(part, self._partition_of, build)

        return (yield from run_matched(known, jobs, self._partition_of, attempt))

    def _partition_of(self, entry: Entry) -> int:
        if self.store.partitions == 1:
            return 0
        job_id, job = entry[0], entry[1].template.job
        partition = self.store.partition_of_queue(job.queue)
        if self.store.partition_of_job(job_id) != partition:
            raise CrossPartition(
                f"The id belongs to another partition than queue {job.queue!r}; let Windlass make the id."
            )
        if any(self.store.partition_of_job(other) != partition for other in (job.parent, *job.after) if other):
            raise CrossPartition(
                "A job, its parent and the jobs it waits for must lie in one partition: "
                "give their queues a common {tag}."
            )
        if job.flow is not None and self.store.partition_of_job(job.flow.id) != partition:
            raise CrossPartition(
                f"The id of the flow belongs to another partition than queue {job.queue!r}; make it with "
                "`store.new_ids` for a queue of the flow."
            )
        return partition


def _check_durability(level: Durability) -> Durability:
    if level not in ("memory", "fsync", "replica"):
        raise BadInput(f"durability must be memory, fsync or replica, not {level!r}.")
    return level


def _queues_of(jobs: Sequence[PreparedJob]) -> set[str]:
    return {job.template.job.queue for job in jobs}


def _check_whole(jobs: Sequence[PreparedJob]) -> None:
    """Check the limits of an atomic enqueue: one step of the engine is bounded, and it cannot undo the effect of a
    unique key."""
    if len(jobs) > WHOLE_MAX:
        raise TooLarge(f"At most {WHOLE_MAX} jobs can be accepted as a whole, not {len(jobs)}.")
    size = sum(len(job.payload.data) for job in jobs)
    if size > BYTES_MAX:
        raise TooLarge(f"Payloads of jobs that are accepted as a whole may have {BYTES_MAX} bytes, not {size}.")
    for job in (prepared.template.job for prepared in jobs):
        if job.unique and job.unique_check not in ("none", "refuse"):
            raise BadInput(f"{job.name}: unique_check must be none or refuse for jobs that are accepted as a whole.")


def _check_flows(jobs: Sequence[PreparedJob]) -> None:
    """Check that jobs of a flow agree on its name and run once, and that it has not too many dependencies."""
    names: dict[bytes, str] = {}
    dependencies: Counter[bytes] = Counter()
    for job in (prepared.template.job for prepared in jobs):
        if job.flow is None:
            continue
        if names.setdefault(job.flow.id, job.flow.name) != job.flow.name:
            raise BadInput(f"{job.name}: all jobs of a flow name it alike, not {job.flow.name!r} and another name.")
        if job.unique or job.repeat:
            raise BadInput(f"{job.name}: a job of a flow has no unique key and no repeat rule, because it runs once.")
        dependencies[job.flow.id] += len(job.after)
    most = max(dependencies.values(), default=0)
    if most > FLOW_AFTER_MAX:
        raise TooLarge(
            f"A flow may have {FLOW_AFTER_MAX} dependencies, not {most}; let steps wait for a group (joins) instead."
        )
