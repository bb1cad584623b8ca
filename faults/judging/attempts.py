"""Attempts count the leases, less those given back, and are never more than the job may have."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from .final import Final
from .finding import Finding, Promises
from .indexed import Indexed, JobHistory, Lease

RULE = "attempts miscounted"


def check(history: Indexed, final: Final, promises: Promises) -> Iterator[Finding]:
    for job in history.jobs.values():
        leases = [one for one in job.leases if one.token and one.given.seen.attempt]
        tries = max((one.seen.tries for one in job.enqueues), default=0)
        for lease in leases:
            if tries and lease.given.seen.attempt > tries:
                sentence = f"It may have {tries} attempts and was given attempt {lease.given.seen.attempt}."
                yield Finding(RULE, job.job, sentence, lease.given.call.entries)
        if promises.may_forget or job.is_revived:
            continue
        for earlier, later in pairwise(leases):
            yield from _between(job, earlier, later, promises.is_calm)
        if leases and job.job in final.jobs:
            yield from _at_last(job, leases[-1], final.jobs[job.job].attempt)


def _between(job: JobHistory, earlier: Lease, later: Lease, is_calm: bool) -> Iterator[Finding]:
    was, became = earlier.given.seen.attempt, later.given.seen.attempt
    if _may_be_given_back(job, earlier):
        return
    if became <= was or (is_calm and became != was + 1):
        entries = earlier.given.call.entries + later.given.call.entries
        yield Finding(RULE, job.job, f"Attempt {was} was followed by attempt {became}.", entries)


def _at_last(job: JobHistory, last: Lease, attempt: int) -> Iterator[Finding]:
    if attempt < last.given.seen.attempt and not _may_be_given_back(job, last):
        sentence = f"It was given attempt {last.given.seen.attempt}, and in the end it counts {attempt}."
        yield Finding(RULE, job.job, sentence, last.given.call.entries)


def _may_be_given_back(job: JobHistory, lease: Lease) -> bool:
    """By its holder; or by the server, when a connection that it was bound to ended."""
    released = any(one.may_be_done and one.seen.token == lease.token for one in job.of("release"))
    return released or lease.is_bound
