"""Jobs come in."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TypeAlias

from windlass.core.errors import BadInput, CrossPartition, Refusal, TooLarge
from windlass.core.ids import numbered_id
from windlass.core.job import Blob, Codec, Durability, NewJob
from windlass.core.job_template import PreparedJob, prepare_single
from windlass.core.operations import Enqueued
from windlass.core.text.codecs import has_unreadable_number
from windlass.core.validation.bounds import WHOLE_MAX
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

Entry: TypeAlias = tuple[bytes, PreparedJob]  # a job with its id


class EnqueueOperations(Facet):
    def enqueue(
        self, jobs: Sequence[NewJob | PreparedJob], *, durability: Durability | None = None, whole: bool = False
    ) -> BatchOperation[Enqueued]:
        """Accepts jobs. Answers in order; an id or a unique key that is there already is no error. `whole`: accepts all
        of them or none, in one step; when none, all have the same refusal."""
        check_list("jobs", jobs)
        checked = self._all_checked(jobs)
        level = _known_level(durability or self.store.durability)
        if whole:
            _check_whole(checked)
        with_ids: list[Entry] = []
        return BatchOperation(self.store, lambda: self._enqueue_flow(checked, with_ids, level, whole))

    def enqueue_numbered(
        self, jobs: Sequence[NewJob | PreparedJob], *, durability: Durability | None = None
    ) -> BatchOperation[Enqueued]:
        """As `enqueue` of jobs without ids: these are made of numbers, which are drawn as the jobs come in, one after
        the other. Asked twice it accepts the jobs twice."""
        check_list("jobs", jobs)
        checked = self._all_checked(jobs)
        if any(job.id or job.template.job.id for job in checked):
            raise BadInput("A job that is to get a number is given without an id: the number becomes its id.")
        level = _known_level(durability or self.store.durability)
        return BatchOperation(self.store, lambda: self._enqueue_numbered_flow(checked, level))

    def _enqueue_numbered_flow(self, jobs: Sequence[PreparedJob], level: Durability) -> Flow[list[Enqueued | Refusal]]:
        without = {queue: numbered_id(0, self.store.partition_of_queue(queue)) for queue in _queues_of(jobs)}
        made = [(without[job.template.job.queue], job) for job in jobs]
        return (yield from self._enqueue_flow(jobs, made, level, False, reserves_numbers=True))

    @cached_property
    def _straight(self) -> FastEnqueue:
        return FastEnqueue(self.store)

    def enqueue_one(self, job: NewJob | PreparedJob, *, durability: Durability | None = None) -> Operation[Enqueued]:
        """As `enqueue` of one job; a refusal is raised. The quickest way of a caller that blocks."""
        if type(job) is not PreparedJob or (durability or self.store.durability) != "memory":
            return self.enqueue((job,), durability=durability).one()
        return SingleEnqueue(self._straight, self._checked(job), self._generally)

    def _generally(self, job: PreparedJob) -> Operation[Enqueued]:
        return self.enqueue((job,), durability="memory").one()

    def _all_checked(self, jobs: Sequence[NewJob | PreparedJob]) -> list[PreparedJob]:
        """Most are filled forms that were seen before: of these little is left to be looked at."""
        checked: list[PreparedJob] = []
        most = self._payload_max
        for job in jobs:
            is_seen = type(job) is PreparedJob and job.template.is_checked and job.id == b""
            payload = job.payload if is_seen else None
            if (
                type(payload) is Blob
                and type(payload.codec) is Codec
                and type(payload.data) is bytes
                and len(payload.data) <= most
                and (payload.codec is not Codec.JSON or not has_unreadable_number(payload.data))
            ):
                checked.append(job)  # type: ignore[arg-type]  # it is Filled
            else:
                checked.append(self._checked(job))
        return checked

    def _checked(self, job: NewJob | PreparedJob) -> PreparedJob:
        if type(job) is PreparedJob:
            check_new_blob("payload", job.payload, self._payload_max)
            if job.id != b"":
                check_id("id", job.id)
            if not job.template.is_checked:
                self._check_new(job.template.job)
                job.template.is_checked = True
            return job
        self._check_new(job)  # type: ignore[arg-type]  # whatever it is
        return prepare_single(job)  # type: ignore[arg-type]

    def _check_new(self, job: NewJob) -> None:
        check_new_job(job, self._payload_max)
        if job.callback is not None:
            check_callback(job.callback)
        if job.cap is not None:
            check_cap(job.cap)

    def _with_ids(self, jobs: Sequence[PreparedJob], made: list[Entry]) -> list[Entry]:
        """Made once, when it is known where queues are at home: a question asked twice is about the same jobs."""
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
        if whole and len({self._home_of(one) for one in jobs}) > 1:
            raise CrossPartition("What is accepted as a whole lies in one partition: give its queues a common {tag}.")
        known = self.store.limit_cache
        confirmed = None if level == "memory" else level

        def call(some: Sequence[Entry], home: int) -> BatchCommand[Enqueued | Refusal]:
            return enqueue.enqueue(
                some, now_ms, known.table(home), home, confirmed, is_whole=whole, reserves_numbers=reserves_numbers
            )

        def attempt(part: Sequence[Entry]) -> Flow[list[Enqueued | Refusal]]:
            is_simple = self.store.partitions == 1 and part
            return run_in_parts(call(part, 0)) if is_simple else split_by_partition(part, self._home_of, call)

        return (yield from run_matched(known, jobs, self._home_of, attempt))

    def _home_of(self, entry: Entry) -> int:
        if self.store.partitions == 1:
            return 0
        job_id, job = entry[0], entry[1].template.job
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


def _known_level(level: Durability) -> Durability:
    if level not in ("memory", "fsync", "replica"):
        raise BadInput(f"durability must be memory, fsync or replica, not {level!r}.")
    return level


def _queues_of(jobs: Sequence[PreparedJob]) -> set[str]:
    return {job.template.job.queue for job in jobs}


def _check_whole(jobs: Sequence[PreparedJob]) -> None:
    """One step of the engine is bounded, and cannot take back what a unique key decided."""
    if len(jobs) > WHOLE_MAX:
        raise TooLarge(f"At most {WHOLE_MAX} jobs can be accepted as a whole, not {len(jobs)}.")
    size = sum(len(job.payload.data) for job in jobs)
    if size > BYTES_MAX:
        raise TooLarge(f"The payloads of jobs that are accepted as a whole have at most {BYTES_MAX} bytes, not {size}.")
    for job in (one.template.job for one in jobs):
        if job.unique and job.unique_check not in ("none", "refuse"):
            raise BadInput(f"{job.name}: among jobs that are accepted as a whole, unique_check must be none or refuse.")
