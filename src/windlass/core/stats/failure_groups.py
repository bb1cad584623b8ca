"""Failed jobs, grouped by what went wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from windlass.core.job import Attempt, Job
from windlass.core.text.error_text import error_line, error_shape

LINE_MAX = 1_000
LOOKED_AT_MAX = 10_000  # failed jobs, for one answer


class FailureGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Failed jobs of one queue and name whose last errors have one shape."""

    queue: str
    name: str
    error_shape: str  # the first line of the error, with ids, numbers and quoted texts masked
    count: int
    first_at_ms: int
    last_at_ms: int
    sample: bytes  # id of the one that failed last
    sample_error: str  # what it says, in one line


class Failures(msgspec.Struct, frozen=True, kw_only=True):
    """The largest group first."""

    groups: list[FailureGroup]
    looked_at: int  # the last failed jobs
    is_all: bool  # there are no others
    at_ms: int  # when this was read


def group_failures(jobs: Iterable[Job], said: Mapping[bytes, Attempt]) -> list[FailureGroup]:
    """Of jobs in the order of their ends, the last one first."""
    found: dict[tuple[str, str, str], FailureGroup] = {}
    for job in jobs:
        attempt, ended_at_ms = said.get(job.id), job.ended_at_ms or 0
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
    """Groups of one page after another: equal ones become one."""
    found: dict[tuple[str, str, str], FailureGroup] = {}
    for one in groups:
        key = (one.queue, one.name, one.error_shape)
        known = found.get(key)
        if known is not None:
            one = msgspec.structs.replace(
                known,
                count=known.count + one.count,
                first_at_ms=min(known.first_at_ms, one.first_at_ms),
            )
        found[key] = one
    return sorted(found.values(), key=lambda one: (-one.count, -one.last_at_ms, one.queue, one.name))
