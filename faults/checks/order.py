"""First in, first out within a queue, lane and priority.

A queue is checked if its only taker takes one batch after the other. A job is given before every job of a later
enqueue, and before later jobs of the same enqueue."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from .final_state import FinalState
from .finding import Finding, Guarantees
from .history_index import HistoryIndex, JobCall, JobHistory, Lease

RULE = "out of order"


class Passage(NamedTuple):
    """A job's way through the queue, from its enqueue to its first lease."""

    enqueue: JobCall
    lease: Lease
    job_id: str


def check(history: HistoryIndex, _final: FinalState, guarantees: Guarantees) -> Iterator[Finding]:
    lines: dict[tuple[str, str, int], list[Passage]] = defaultdict(list)
    for job in history.jobs.values():
        passage = _passage(job)
        if passage is not None and passage.enqueue.facts.queue in guarantees.ordered:
            facts = passage.enqueue.facts
            lines[facts.queue, facts.lane, facts.priority].append(passage)
    for line in lines.values():
        yield from _find_overtaking(line)


def _passage(job: JobHistory) -> Passage | None:
    """Return the passage of a job whose first lease is known. A job with a lost first lease returns later."""
    if len(job.enqueues) != 1 or not job.leases or job.calls_named("release", "requeue"):
        return None
    enqueue, first = job.enqueues[0], job.leases[0]
    if not enqueue.is_ok or enqueue.facts.is_delayed or first.grant.facts.attempt != 1:
        return None
    return Passage(enqueue, first, job.job_id)


def _find_overtaking(line: list[Passage]) -> Iterator[Finding]:
    """Compare each job with the slowest of all jobs enqueued before it, and with its direct predecessor."""
    by_answer = sorted(line, key=lambda passage: passage.enqueue.answered_ns)
    at, slowest, before = 0, None, None
    for passage in sorted(line, key=lambda passage: (passage.enqueue.begun_ns, passage.enqueue.position)):
        while at < len(by_answer) and by_answer[at].enqueue.answered_ns < passage.enqueue.begun_ns:
            if slowest is None or _lease_order(by_answer[at]) > _lease_order(slowest):
                slowest = by_answer[at]
            at += 1
        for other in (slowest, before):
            if other is not None and _entered_before(other, passage) and _left_before(passage, other):
                yield _finding(passage, other)
                break
        before = passage


def _lease_order(passage: Passage) -> tuple[int, int]:
    return passage.lease.grant.begun_ns, passage.lease.grant.position


def _entered_before(first: Passage, second: Passage) -> bool:
    if first.enqueue.call is second.enqueue.call:
        return first.enqueue.position < second.enqueue.position
    return first.enqueue.answered_ns < second.enqueue.begun_ns


def _left_before(first: Passage, second: Passage) -> bool:
    if first.lease.grant.call is second.lease.grant.call:
        return first.lease.grant.position < second.lease.grant.position
    return first.lease.grant.answered_ns < second.lease.grant.begun_ns


def _finding(passage: Passage, slower: Passage) -> Finding:
    sentence = f"It was given before {slower.job_id}, which was enqueued earlier into {slower.enqueue.facts.queue}."
    entries = slower.enqueue.entries + passage.enqueue.entries + passage.lease.grant.entries
    return Finding(RULE, passage.job_id, sentence, entries + slower.lease.grant.entries)
