"""Look-up of jobs by any name that a dialect gives them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from windlass.core.access.tokens import is_queue_allowed
from windlass.core.errors import BadInput, Refusal
from windlass.core.ids import (
    DOWNLOADS_QUEUE,
    ID_DIGITS,
    NUMBER_MAX,
    IdPart,
    id_part,
    number_of_download_id,
    parse_id,
    without_cut_marks,
)
from windlass.core.job import Job, Timeline
from windlass.core.job_aliases import AliasMatches, JobAliases, aliases_of
from windlass.core.validation.bounds import QUEUE_MAX, UNIQUE_MAX
from windlass.core.validation.tokens import check_queue_patterns
from windlass.core.validation.values import check_instance, check_list, check_text
from windlass.service.jobs import JobOperations
from windlass.store.batching.partition_split import split_by_partition
from windlass.store.commands import numbers
from windlass.store.commands.command import Flow
from windlass.store.id_scan import scan_ids
from windlass.store.operation import BatchOperation, Operation

from .numbers import NumberOperations

QUEUES_SEARCHED_MAX = 10_000  # for a unique key
MATCHES_MAX = 50
_NUMBER = re.compile(r"[0-9]{1,19}", re.ASCII)


class AliasOperations(JobOperations, NumberOperations):
    def find(self, alias: str, *, queue: str = "") -> Operation[AliasMatches]:
        """Return the jobs that a text may mean: by id, Bedrock job number, download id, or unique key, such as a
        processor's uuid. Several queues may have the same unique key; `queue` restricts the search to one.

        If there is no such job, the text may be the beginning or the end of an id, at least 4 hex digits. This examines
        the ids of up to 100,000 jobs, the newest of each queue."""
        return self.find_within(alias, (), queue=queue)

    def find_within(self, alias: str, queues: tuple[str, ...], *, queue: str = "") -> Operation[AliasMatches]:
        """Find jobs for a caller that may see only the queues that match these patterns (none: all)."""
        check_text("alias", alias, UNIQUE_MAX)
        check_queue_patterns(queues)
        check_text("queue", queue, QUEUE_MAX, may_be_empty=True)
        return Operation(self.store, lambda: self._find_flow(alias, queues, queue))

    def _find_flow(self, alias: str, queues: tuple[str, ...], queue: str) -> Flow[AliasMatches]:
        names = [queue] if queue else (yield from self._queues_flow())
        names = [name for name in names if is_queue_allowed(name, queues)]
        # Few programs name their own jobs in the queue of the downloader, and many people look for downloads.
        names.sort(key=lambda name: name != DOWNLOADS_QUEUE)
        searched = names[:QUEUES_SEARCHED_MAX]
        numbered = yield from self._find_numbers_flow(list(_numbers_in(alias)))
        held = yield from split_by_partition(
            [(name, alias) for name in searched],
            lambda key: self.store.partition_of_queue(key[0]),
            numbers.holder,
        )
        ids = [job_id for job_id in (*_ids_in(alias), *numbered, *held) if isinstance(job_id, bytes)]
        found = yield from self._matches_flow(ids, queues, queue)
        part = id_part(alias)
        if not found.jobs and part is not None and len(part.digits) < ID_DIGITS:
            found = yield from self._find_by_part_flow(part, searched, queues)
        return msgspec.structs.replace(found, is_complete=found.is_complete and len(names) == len(searched))

    def _find_by_part_flow(self, part: IdPart, names: Sequence[str], queues: tuple[str, ...]) -> Flow[AliasMatches]:
        scan = yield from scan_ids(part, names, self.store.partition_of_queue, MATCHES_MAX)
        found = yield from self._matches_flow(scan.ids, queues, "")
        return AliasMatches(found.jobs, found.is_complete and scan.is_complete, scan.looked_at)

    def _matches_flow(self, ids: Sequence[bytes], queues: tuple[str, ...], queue: str) -> Flow[AliasMatches]:
        """Read the jobs that the caller may see."""
        ids = list(dict.fromkeys(ids))
        timelines = yield from self._job_flow(ids[:MATCHES_MAX])
        jobs = [timeline.job for timeline in timelines if isinstance(timeline, Timeline)]
        return AliasMatches(
            [job for job in jobs if is_queue_allowed(job.queue, queues) and queue in ("", job.queue)],
            len(ids) <= MATCHES_MAX,
        )

    def aliases(self, jobs: Sequence[Job]) -> BatchOperation[JobAliases]:
        """Return the names of jobs beside their ids. A job that has no Bedrock job number gets none by this."""
        check_list("jobs", jobs)
        for job in jobs:
            check_instance("A job", job, Job)
        return BatchOperation(self.store, lambda: self._aliases_flow(jobs))

    def _aliases_flow(self, jobs: Sequence[Job]) -> Flow[list[JobAliases | Refusal]]:
        found: list[Any] = yield from self._assigned_number_flow([job.id for job in jobs])
        return [
            number if isinstance(number, Refusal) else aliases_of(job, number)
            for job, number in zip(jobs, found, strict=True)
        ]


def _ids_in(alias: str) -> Iterator[bytes]:
    try:
        yield parse_id(without_cut_marks(alias))
    except BadInput:
        return


def _numbers_in(alias: str) -> Iterator[int]:
    if _NUMBER.fullmatch(alias) and int(alias) <= NUMBER_MAX:
        yield int(alias)
    if (number := number_of_download_id(alias)) is not None:
        yield number
