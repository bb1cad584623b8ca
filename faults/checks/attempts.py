"""Attempts count the leases without released ones, and never exceed the job's limit."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from .final_state import FinalState
from .finding import Finding, Guarantees
from .history_index import HistoryIndex, JobHistory, Lease

RULE = "attempts miscounted"


def check(history: HistoryIndex, final: FinalState, guarantees: Guarantees) -> Iterator[Finding]:
    for job in history.jobs.values():
        leases = [lease for lease in job.leases if lease.token and lease.grant.facts.attempt]
        tries = max((enqueue.facts.tries for enqueue in job.enqueues), default=0)
        for lease in leases:
            if tries and lease.grant.facts.attempt > tries:
                sentence = f"The job may have {tries} attempts and was given attempt {lease.grant.facts.attempt}."
                yield Finding(RULE, job.job_id, sentence, lease.grant.entries)
        if guarantees.may_lose_reports or job.was_requeued or len(leases) < len(job.leases):
            continue  # the last: a front end without tokens had it too, and may reset the count, as Bedrock does
        for earlier, later in pairwise(leases):
            yield from _check_pair(job, earlier, later, guarantees.has_every_lease)
        if leases and job.job_id in final.jobs:
            yield from _check_final(job, leases[-1], final.jobs[job.job_id].attempt)


def _check_pair(job: JobHistory, earlier: Lease, later: Lease, has_every_lease: bool) -> Iterator[Finding]:
    before, after = earlier.grant.facts.attempt, later.grant.facts.attempt
    if _may_be_released(job, earlier):
        return
    if after <= before or (has_every_lease and after != before + 1):
        entries = earlier.grant.entries + later.grant.entries
        yield Finding(RULE, job.job_id, f"Attempt {before} was followed by attempt {after}.", entries)


def _check_final(job: JobHistory, last: Lease, attempt: int) -> Iterator[Finding]:
    if attempt < last.grant.facts.attempt and not _may_be_released(job, last):
        sentence = f"The job was given attempt {last.grant.facts.attempt}, but its final count is {attempt}."
        yield Finding(RULE, job.job_id, sentence, last.grant.entries)


def _may_be_released(job: JobHistory, lease: Lease) -> bool:
    """Return whether the holder, or the server after the end of a connection, may have given the attempt back."""
    calls = job.calls_named("release", "suspend")
    is_released = any(call.may_have_effect and call.facts.token == lease.token for call in calls)
    return is_released or lease.is_connection_bound
