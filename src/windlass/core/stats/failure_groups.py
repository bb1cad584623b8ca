"""Failed jobs grouped by their error. Jobs that failed because of another job count for the group of that job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from windlass.core.flow.cause import blamed_member
from windlass.core.job import Attempt, Job
from windlass.core.text.error_text import error_line, error_shape

LINE_MAX = 1_000
LOOKED_AT_MAX = 10_000  # failed jobs, for one answer


class FailureGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Failed jobs of one queue and name whose last errors have the same shape."""

    queue: str
    name: str
    error_shape: str  # the first line of the error, with ids, numbers and quoted texts masked
    count: int
    consequences: int = 0  # examined jobs that failed because of these jobs; not in `count`
    first_at_ms: int
    last_at_ms: int
    sample: bytes  # id of the job that failed last
    sample_error: str  # its error in one line


class Failures(msgspec.Struct, frozen=True, kw_only=True):
    """Failure groups, largest first."""

    groups: list[FailureGroup]
    other_consequences: int = 0  # examined jobs that failed because of jobs that were not examined
    looked_at: int  # number of examined jobs: the latest failed ones
    is_all: bool  # all failed jobs were examined
    at_ms: int  # time of the read


_Key = tuple[str, str, str]  # queue, name, shape of the error


class FailureGrouping:
    """Groups failed jobs page by page, given in the order of their ends, latest first."""

    def __init__(self) -> None:
        self._groups: dict[_Key, FailureGroup] = {}
        self._key_of: dict[bytes, _Key] = {}  # job -> its group
        self._blamed: dict[bytes, bytes | None] = {}  # consequence -> the job because of which it failed

    def add(self, jobs: Iterable[Job], last_attempts: Mapping[bytes, Attempt]) -> None:
        for job in jobs:
            attempt = last_attempts.get(job.id)
            if job.is_consequence:
                self._blamed[job.id] = blamed_member(attempt)
            else:
                self._key_of[job.id] = self._add_to_group(job, attempt)

    def _add_to_group(self, job: Job, attempt: Attempt | None) -> _Key:
        key, ended_at_ms = (job.queue, job.name, error_shape(attempt)), job.ended_at_ms or 0
        known = self._groups.get(key)
        if known is None:
            line = error_line(attempt.reason, attempt.error) if attempt else ""
            self._groups[key] = FailureGroup(
                queue=job.queue,
                name=job.name,
                error_shape=key[2],
                count=1,
                first_at_ms=ended_at_ms,
                last_at_ms=ended_at_ms,
                sample=job.id,
                sample_error=line.strip().partition("\n")[0][:LINE_MAX],
            )
        else:
            first_at_ms = min(known.first_at_ms, ended_at_ms)
            self._groups[key] = msgspec.structs.replace(known, count=known.count + 1, first_at_ms=first_at_ms)
        return key

    def result(self) -> tuple[list[FailureGroup], int]:
        """Return the groups by size, and the number of consequences whose cause was not added."""
        counts: dict[_Key | None, int] = {}
        for job_id in self._blamed:
            key = self._key_of.get(self._root_of(job_id))
            counts[key] = counts.get(key, 0) + 1
        groups = [
            msgspec.structs.replace(group, consequences=counts.get(key, 0)) for key, group in self._groups.items()
        ]
        groups.sort(key=lambda group: (-group.count, -group.last_at_ms, group.queue, group.name))
        return groups, counts.get(None, 0)

    def _root_of(self, job_id: bytes) -> bytes:
        """Return the first job of a chain. The chain then leads there directly, so that long chains cost little."""
        passed: dict[bytes, None] = {}
        while (member := self._blamed.get(job_id)) is not None and job_id not in passed:
            passed[job_id] = None
            job_id = member
        for consequence in passed:
            self._blamed[consequence] = job_id
        return job_id
