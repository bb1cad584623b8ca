"""First in, first out, within a queue, lane and priority: where one taker asks for one lot after the other, whatever
was enqueued before another enqueue began, or earlier in the same one, is given before what that brought."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from .final import Final
from .finding import Finding, Promises
from .indexed import Deed, Indexed, JobHistory, Lease

RULE = "out of order"


class Passage(NamedTuple):
    """From an enqueue to the first lease."""

    entered: Deed
    left: Lease
    job: str


def check(history: Indexed, _final: Final, promises: Promises) -> Iterator[Finding]:
    lines: dict[tuple[str, str, int], list[Passage]] = defaultdict(list)
    for job in history.jobs.values():
        passage = _passage(job)
        if passage is not None and passage.entered.seen.queue in promises.ordered:
            seen = passage.entered.seen
            lines[seen.queue, seen.lane, seen.priority].append(passage)
    for line in lines.values():
        yield from _overtaken(line)


def _passage(job: JobHistory) -> Passage | None:
    """Of a job whose first lease is known: what was given to somebody and lost comes back in its own time."""
    if len(job.enqueues) != 1 or not job.leases or job.of("release", "requeue"):
        return None
    entered, first = job.enqueues[0], job.leases[0]
    if not entered.is_ok or entered.seen.is_delayed or first.given.seen.attempt != 1:
        return None
    return Passage(entered, first, job.job)


def _overtaken(line: list[Passage]) -> Iterator[Finding]:
    """Those that had entered before one began to, and left after it had: the last to leave of them tells."""
    by_answer = sorted(line, key=lambda one: one.entered.answered_ns)
    at, slowest, before = 0, None, None
    for passage in sorted(line, key=lambda one: (one.entered.begun_ns, one.entered.place)):
        while at < len(by_answer) and by_answer[at].entered.answered_ns < passage.entered.begun_ns:
            if slowest is None or _leaving(by_answer[at]) > _leaving(slowest):
                slowest = by_answer[at]
            at += 1
        for other in (slowest, before):
            if other is not None and _entered_before(other, passage) and _left_before(passage, other):
                yield _finding(passage, other)
                break
        before = passage


def _leaving(passage: Passage) -> tuple[int, int]:
    return passage.left.given.begun_ns, passage.left.given.place


def _entered_before(one: Passage, other: Passage) -> bool:
    if one.entered.call is other.entered.call:
        return one.entered.place < other.entered.place
    return one.entered.answered_ns < other.entered.begun_ns


def _left_before(one: Passage, other: Passage) -> bool:
    if one.left.given.call is other.left.given.call:
        return one.left.given.place < other.left.given.place
    return one.left.given.answered_ns < other.left.given.begun_ns


def _finding(passage: Passage, slower: Passage) -> Finding:
    sentence = f"It was given before {slower.job}, which had been enqueued before it into {slower.entered.seen.queue}."
    entries = slower.entered.call.entries + passage.entered.call.entries + passage.left.given.call.entries
    return Finding(RULE, passage.job, sentence, entries + slower.left.given.call.entries)
