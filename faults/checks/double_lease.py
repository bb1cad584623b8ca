"""A job has at most one lease at a time.

A lease lasts from its grant until its deadline by the engine's clock. If a call that may have ended it was begun
earlier, its end is unknown and nothing is reported. Where only runs are known, as for the SDK's own worker, tokens
decide: a token belongs to one lease and one run. Pushes and the processor name no lease to their workers; there the
events of the engine decide, which a client follows: a running job must leave that state before it is given again."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from .final_state import FinalState
from .finding import Finding, Guarantees
from .history_index import ENDING_CALLS, NEVER, Call, HistoryIndex, JobCall, JobHistory, Lease
from .job_identity import job_identity

RULE = "double lease"
LEASED = ("dispatched", "running")
MISSED = "missed"  # a watcher may have missed events: the states are unknown until then


def check(history: HistoryIndex, _final: FinalState, guarantees: Guarantees) -> Iterator[Finding]:
    if not guarantees.may_lose_reports:
        yield from _check_states(history)
    for job in history.jobs.values():
        for first, second in pairwise(job.leases):
            earlier, later = sort_pair(first, second)
            if earlier.token and earlier.token == later.token:
                yield _finding(job, earlier, later, f"was given twice with the token {earlier.token}")
            elif not guarantees.may_lose_reports and _overlap(history, job, earlier, later, guarantees.slack_ms):
                yield _finding(job, earlier, later, "was given while the previous lease was still held")
        yield from _check_runs(job)


def _check_states(history: HistoryIndex) -> Iterator[Finding]:
    """Find jobs that were given to a worker while they were running. A dispatched job may be dispatched again, because
    a worker may refuse it."""
    last: dict[str, Call] = {}  # the last state of each job
    for call in history.calls:
        if call.begun.call != "state":
            continue
        (facts,) = call.begun.jobs
        if facts.outcome == MISSED:
            last.clear()
            continue
        job_id = job_identity(facts.id)
        before = last.get(job_id)
        if before is not None and before.begun.jobs[0].outcome == "running" and facts.outcome in LEASED:
            sentence = (
                f"It entered {facts.outcome} (attempt {facts.attempt}), and had been running "
                f"(attempt {before.begun.jobs[0].attempt}) without a state between."
            )
            yield Finding(RULE, job_id, sentence, before.entries + call.entries)
        last[job_id] = call


def _check_runs(job: JobHistory) -> Iterator[Finding]:
    """Find two holders of one token. No clock is needed, because a token is given only once."""
    holders: dict[int, JobCall] = {lease.token: lease.grant for lease in job.leases if lease.token}
    for run in job.calls_named("run"):
        other = holders.setdefault(run.facts.token, run) if run.facts.token else run
        if other is not run:
            names = f"{other.client} and {run.client}"
            sentence = f"{names} both held the job with the token {run.facts.token}."
            yield Finding(RULE, job.job_id, sentence, other.entries + run.entries)


def sort_pair(first: Lease, second: Lease) -> tuple[Lease, Lease]:
    if first.token or first.grant.answered_ns <= second.grant.answered_ns:
        return first, second
    return second, first


def _overlap(history: HistoryIndex, job: JobHistory, earlier: Lease, later: Lease, slack_ms: int) -> bool:
    if first_possible_end_ns(history, job, earlier) <= later.grant.answered_ns:
        return False
    if not (earlier.token and later.token) and later.grant.begun_ns < earlier.grant.answered_ns:
        return False  # the order of the two grants is unknown
    deadline_ms = earlier.deadline_ms(later.grant.begun_ns)
    if deadline_ms and later.grant.facts.leased_at_ms:
        return later.grant.facts.leased_at_ms < deadline_ms
    return later.grant.answered_ns < earlier.earliest_expiry_ns(slack_ms)


def first_possible_end_ns(history: HistoryIndex, job: JobHistory, lease: Lease) -> int:
    """Return when the first call began that may have ended the lease before its deadline; NEVER: there is none."""
    ends = [
        call.begun_ns
        for call in job.calls
        if call.name in ENDING_CALLS
        and call.may_have_effect
        and (not call.facts.token or not lease.token or call.facts.token == lease.token)
        and call.answered_ns > lease.grant.begun_ns
    ]
    if lease.is_connection_bound:
        ends.append(history.connection_alive_until_ns(lease.grant.call.begun.connection))
    return min(ends, default=NEVER)


def _finding(job: JobHistory, earlier: Lease, later: Lease, words: str) -> Finding:
    holder, taker = earlier.grant.client, later.grant.client
    sentence = (
        f"The lease {later.token or ''} of {taker} {words}: {holder} holds {earlier.token or 'it'} "
        f"until {earlier.deadline_ms(NEVER) or 'its connection ends'} by the engine's clock, "
        f"and has sent no report since."
    )
    return Finding(RULE, job.job_id, sentence, earlier.grant.entries + later.grant.entries)
