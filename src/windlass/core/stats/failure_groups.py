"""Failed jobs grouped by their error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

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
    first_at_ms: int
    last_at_ms: int
    sample: bytes  # id of the job that failed last
    sample_error: str  # its error in one line


class Failures(msgspec.Struct, frozen=True, kw_only=True):
    """Failure groups, largest first."""

    groups: list[FailureGroup]
    looked_at: int  # number of examined jobs: the latest failed ones
    is_all: bool  # all failed jobs were examined
    at_ms: int  # time of the read


def group_failures(jobs: Iterable[Job], last_attempts: Mapping[bytes, Attempt]) -> list[FailureGroup]:
    """Group failed jobs, given in the order of their ends, latest first."""
    found: dict[tuple[str, str, str], FailureGroup] = {}
    for job in jobs:
        attempt, ended_at_ms = last_attempts.get(job.id), job.ended_at_ms or 0
        key = (job.queue, job.name, error_shape(attempt))
        known = found.get(key)
        if known is None:
            line = error_line(attempt.reason, attempt.error) if attempt else ""
            found[key] = FailureGroup(
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
            found[key] = msgspec.structs.replace(known, count=known.count + 1, first_at_ms=ended_at_ms)
    return list(found.values())


def merge_groups(groups: Iterable[FailureGroup]) -> list[FailureGroup]:
    """Merge equal groups of several pages, given latest page first, and sort them by size."""
    found: dict[tuple[str, str, str], FailureGroup] = {}
    for group in groups:
        key = (group.queue, group.name, group.error_shape)
        known = found.get(key)
        if known is not None:
            group = msgspec.structs.replace(
                known,
                count=known.count + group.count,
                first_at_ms=min(known.first_at_ms, group.first_at_ms),
            )
        found[key] = group
    return sorted(found.values(), key=lambda group: (-group.count, -group.last_at_ms, group.queue, group.name))
