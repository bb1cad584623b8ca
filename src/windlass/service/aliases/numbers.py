"""Numbers that some dialects use instead of job ids, and lookup of jobs by unique key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windlass.core.errors import Refusal, UnknownJob
from windlass.core.ids import (
    NUMBER_MAX,
    NUMBERS_QUEUE,
    number_of_id,
    numbered_id,
    public_number,
    split_public_number,
)
from windlass.core.operations import NumberedJob, TakenDetails, TakenRef
from windlass.core.validation.bounds import QUEUE_MAX, UNIQUE_MAX, WHOLE_MAX
from windlass.core.validation.lease_reports import check_taken_ref
from windlass.core.validation.values import check_id, check_integer, check_list, check_text
from windlass.service.facet import Facet
from windlass.store.batching.partition_split import split_by_partition
from windlass.store.commands import numbers
from windlass.store.commands.command import Flow
from windlass.store.detail_pages import read_details
from windlass.store.operation import BatchOperation, Operation


class NumberOperations(Facet):
    def reserve_numbers(self, queue: str, count: int = 1) -> Operation[list[bytes]]:
        """Reserve ids for new jobs of a queue, made of consecutive numbers. No number is reserved twice."""
        check_text("queue", queue, QUEUE_MAX)
        check_integer("count", count, 1, WHOLE_MAX)
        return Operation(self.store, lambda: self._reserve_numbers_flow(queue, count))

    def _reserve_numbers_flow(self, queue: str, count: int) -> Flow[list[bytes]]:
        partition = self.store.partition_of_queue(queue)
        (first,) = yield numbers.reserve_numbers(count, partition)
        return [numbered_id(first + place, partition) for place in range(count)]

    def number(self, ids: Sequence[bytes]) -> BatchOperation[int]:
        """Return the numbers of jobs. A number identifies a job of any queue in the whole deployment. A job that was
        created without a number gets one, and keeps it as long as it exists."""
        check_list("ids", ids)
        for job_id in ids:
            check_id("id", job_id)
        return BatchOperation(self.store, lambda: self._number_flow(ids))

    def _number_flow(self, ids: Sequence[bytes]) -> Flow[list[int | Refusal]]:
        answers: dict[bytes, int | Refusal] = {}
        for job_id in ids:
            if (number := self.number_in_id(job_id)) is not None:
                answers[job_id] = number
        others = [job_id for job_id in dict.fromkeys(ids) if job_id not in answers]
        given = yield from split_by_partition(others, self.store.partition_of_job, numbers.number)
        for job_id, answer in zip(others, given, strict=True):
            answers[job_id] = answer if isinstance(answer, Refusal) else self._public(answer, job_id)
        return [answers[job_id] for job_id in ids]

    def _public(self, number: int, job_id: bytes) -> int:
        return public_number(number, self.store.partition_of_job(job_id), self._home)

    @property
    def _home(self) -> int:
        return self.store.partition_of_queue(NUMBERS_QUEUE)

    def number_in_id(self, job_id: bytes) -> int | None:
        """Return the number under which a job was created, or None. This sends no command."""
        check_id("id", job_id)
        number = number_of_id(job_id)
        return None if number is None else self._public(number, job_id)

    def assigned_number(self, ids: Sequence[bytes]) -> BatchOperation[int | None]:
        """Return the numbers of jobs, or None for a job that has no number yet. This assigns none."""
        check_list("ids", ids)
        for job_id in ids:
            check_id("id", job_id)
        return BatchOperation(self.store, lambda: self._assigned_number_flow(ids))

    def _assigned_number_flow(self, ids: Sequence[bytes]) -> Flow[list[int | Refusal | None]]:
        others = [job_id for job_id in ids if number_of_id(job_id) is None]
        found: list[Any] = yield from split_by_partition(others, self.store.partition_of_job, numbers.assigned_number)
        assigned = {
            job_id: self._public(answer, job_id) if isinstance(answer, int) else answer
            for job_id, answer in zip(others, found, strict=True)
        }
        return [assigned[job_id] if job_id in assigned else self.number_in_id(job_id) for job_id in ids]

    def taken_details(self, queue: str, requests: Sequence[TakenRef]) -> BatchOperation[TakenDetails]:
        """Return what clients that know jobs by number see beside their taken jobs: numbers, parents, and ended
        children in this queue (empty: in all queues). Set the deadlines of these jobs in the same call. Many children
        need further calls."""
        check_text("queue", queue, QUEUE_MAX, may_be_empty=True)
        check_list("requests", requests)
        for request in requests:
            check_taken_ref(request)
        return BatchOperation(self.store, lambda: self._taken_details_flow(queue, requests))

    def _taken_details_flow(self, queue: str, requests: Sequence[TakenRef]) -> Flow[list[TakenDetails | Refusal]]:
        found = yield from read_details(queue, requests, self.store.partition_of_job)
        return [
            details if isinstance(details, Refusal) else self._public_details(request.id, details)
            for request, details in zip(requests, found, strict=True)
        ]

    def _public_details(self, job_id: bytes, details: TakenDetails) -> TakenDetails:
        def public(shown: NumberedJob) -> NumberedJob:
            return NumberedJob(shown.job, self._public(shown.number, shown.job.id))

        parent = None if details.parent is None else public(details.parent)
        children = tuple(map(public, details.children))
        return TakenDetails(self._public(details.number, job_id), details.deadline_at_ms, parent, children)

    def numbered_id(self, queue: str, number: int) -> bytes:
        """Return the id of a job of the queue that was created under this number. This sends no command."""
        check_text("queue", queue, QUEUE_MAX)
        check_integer("number", number, 0, NUMBER_MAX)
        return numbered_id(number, self.store.partition_of_queue(queue))

    def id_of_number(self, number: int) -> bytes:
        """Return the id of the job that was created under this number. This sends no command."""
        check_integer("number", number, 0, NUMBER_MAX)
        partition, local = split_public_number(number, self._home, self.store.partitions)
        return numbered_id(local, partition)

    def find_numbers(self, given: Sequence[int]) -> BatchOperation[bytes]:
        """Return the ids of the jobs with these numbers; `unknown_job` where there is none."""
        check_list("numbers", given)
        for number in given:
            check_integer("number", number, 0, NUMBER_MAX)
        return BatchOperation(self.store, lambda: self._find_numbers_flow(given))

    def _find_numbers_flow(self, given: Sequence[int]) -> Flow[list[bytes | Refusal]]:
        ids = [self.id_of_number(number) for number in given]
        return (yield from split_by_partition(ids, self.store.partition_of_job, numbers.numbered))

    def holder(self, queue: str, unique: str) -> Operation[bytes | None]:
        """Return the id of the oldest job that holds a unique key, or only declared it."""
        check_text("queue", queue, QUEUE_MAX)
        check_text("unique", unique, UNIQUE_MAX)
        return Operation(self.store, lambda: self._holder_flow(queue, unique))

    def _holder_flow(self, queue: str, unique: str) -> Flow[bytes | None]:
        (found,) = yield numbers.holder([(queue, unique)], self.store.partition_of_queue(queue))
        return None if isinstance(found, UnknownJob) else found
