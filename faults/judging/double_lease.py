"""At most one lease at a time. A lease lives from when it is given until its deadline by the engine's own clock,
unless something that may have ended it was begun before: then nobody can tell, and nothing is said. Where only runs are
known, as of the SDK's own worker, tokens tell: each is one lease, and one run."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from .final import Final
from .finding import Finding, Promises
from .indexed import ENDERS, NEVER, Deed, Indexed, JobHistory, Lease

RULE = "double lease"


def check(history: Indexed, _final: Final, promises: Promises) -> Iterator[Finding]:
    for job in history.jobs.values():
        for one, other in pairwise(job.leases):
            earlier, later = in_order(one, other)
            if earlier.token and earlier.token == later.token:
                yield _finding(job, earlier, later, f"was given twice with one token, {earlier.token}")
            elif not promises.may_forget and _overlap(history, job, earlier, later, promises.slack_ms):
                yield _finding(job, earlier, later, "was given while the lease before it was still held")
        yield from _run_twice(job)


def _run_twice(job: JobHistory) -> Iterator[Finding]:
    """No clock is needed: who runs a job knows its token, and nobody else has been given that one."""
    holders: dict[int, Deed] = {lease.token: lease.given for lease in job.leases if lease.token}
    for run in job.of("run"):
        other = holders.setdefault(run.seen.token, run) if run.seen.token else run
        if other is not run:
            names = f"{other.call.begun.client} and {run.call.begun.client}"
            sentence = f"{names} both had it under one token, {run.seen.token}."
            yield Finding(RULE, job.job, sentence, other.call.entries + run.call.entries)


def in_order(one: Lease, other: Lease) -> tuple[Lease, Lease]:
    return (one, other) if one.token or one.given.answered_ns <= other.given.answered_ns else (other, one)


def _overlap(history: Indexed, job: JobHistory, earlier: Lease, later: Lease, slack_ms: int) -> bool:
    if held_until_ns(history, job, earlier) <= later.given.answered_ns:
        return False
    if not (earlier.token and later.token) and later.given.begun_ns < earlier.given.answered_ns:
        return False  # nobody knows which was first
    until_ms = earlier.until_ms(later.given.begun_ns)
    if until_ms and later.given.seen.leased_at_ms:
        return later.given.seen.leased_at_ms < until_ms
    return later.given.answered_ns < earlier.surely_until_ns(slack_ms)


def held_until_ns(history: Indexed, job: JobHistory, lease: Lease) -> int:
    """Nothing that may have ended it, but for its deadline, was begun before. Never: nothing was."""
    ends = [
        deed.begun_ns
        for deed in job.deeds
        if deed.what in ENDERS
        and deed.may_be_done
        and (not deed.seen.token or not lease.token or deed.seen.token == lease.token)
        and deed.answered_ns > lease.given.begun_ns
    ]
    if lease.is_bound:
        ends.append(history.link_lived_until_ns(lease.given.call.begun.link))
    return min(ends, default=NEVER)


def _finding(job: JobHistory, earlier: Lease, later: Lease, words: str) -> Finding:
    holder, taker = earlier.given.call.begun.client, later.given.call.begun.client
    sentence = (
        f"The lease {later.token or ''} of {taker} {words}: {holder} holds {earlier.token or 'it'}, "
        f"until {earlier.until_ms(NEVER) or 'its connection ends'} by the engine's clock, and has said nothing since."
    )
    return Finding(RULE, job.job, sentence, earlier.given.call.entries + later.given.call.entries)
