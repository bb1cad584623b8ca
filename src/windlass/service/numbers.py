"""Numbers that some dialects use instead of job ids, and lookup of jobs by unique key."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.errors import Refusal, UnknownJob
from windlass.core.ids import NUMBER_MAX, number_of_id, numbered_id
from windlass.core.operations import TakenDetails, TakenRef
from windlass.core.validation.bounds import QUEUE_MAX, UNIQUE_MAX, WHOLE_MAX
from windlass.core.validation.lease_reports import check_taken_ref
from windlass.core.validation.values import check_id, check_integer, check_list, check_text
from windlass.store.batching.partition_split import split_by_partition
from windlass.store.commands import numbers
from windlass.store.commands.command import Flow
from windlass.store.detail_pages import read_details
from windlass.store.operation import BatchOperation, Operation

from .facet import Facet


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
        """Return the numbers of jobs. A job that was created without a number gets one, and keeps it as long as it
        exists. Such numbers belong to the partition: they identify a job together with its queue."""
        check_list("ids", ids)
        for job_id in ids:
            check_id("id", job_id)
        return BatchOperation(self.store, lambda: self._number_flow(ids))

    def _number_flow(self, ids: Sequence[bytes]) -> Flow[list[int | Refusal]]:
        answers: dict[bytes, int | Refusal] = {}
        for job_id in ids:
            if (number := number_of_id(job_id)) is not None:
                answers[job_id] = number
        others = [job_id for job_id in dict.fromkeys(ids) if job_id not in answers]
        given = yield from split_by_partition(others, self.store.partition_of_job, numbers.number)
        answers.update(zip(others, given, strict=True))
        return [answers[job_id] for job_id in ids]

    def taken_details(self, queue: str, requests: Sequence[TakenRef]) -> BatchOperation[TakenDetails]:
        """Return what clients of a queue that know jobs by number see beside their taken jobs: numbers, parents, and
        ended children. Set the deadlines of these jobs in the same call. Many children need further calls."""
        check_text("queue", queue, QUEUE_MAX)
        check_list("requests", requests)
        for request in requests:
            check_taken_ref(request)
        return BatchOperation(self.store, lambda: read_details(queue, requests, self.store.partition_of_job))

    def numbered_id(self, queue: str, number: int) -> bytes:
        """Return the id of a job of the queue that was created under this number. This sends no command."""
        check_text("queue", queue, QUEUE_MAX)
        check_integer("number", number, 0, NUMBER_MAX)
        return numbered_id(number, self.store.partition_of_queue(queue))

    def numbered(self, queue: str, given: Sequence[int]) -> BatchOperation[bytes]:
        """Return the ids of jobs that got their number later; `unknown_job` for all other numbers."""
        check_text("queue", queue, QUEUE_MAX)
        check_list("numbers", given)
        for number in given:
            check_integer("number", number, 0, NUMBER_MAX)
        return BatchOperation(self.store, lambda: self._numbered_flow(queue, given))

    def _numbered_flow(self, queue: str, given: Sequence[int]) -> Flow[list[bytes | Refusal]]:
        return (yield numbers.numbered(given, self.store.partition_of_queue(queue)))  # type: ignore[no-any-return]

    def holder(self, queue: str, unique: str) -> Operation[bytes | None]:
        """Return the id of the oldest job that holds a unique key, or only declared it."""
        check_text("queue", queue, QUEUE_MAX)
        check_text("unique", unique, UNIQUE_MAX)
        return Operation(self.store, lambda: self._holder_flow(queue, unique))

    def _holder_flow(self, queue: str, unique: str) -> Flow[bytes | None]:
        (found,) = yield numbers.holder(queue, [unique], self.store.partition_of_queue(queue))
        return None if isinstance(found, UnknownJob) else found
