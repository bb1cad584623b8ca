"""No limit is exceeded. Counted are only the spans in which a job held its place beyond doubt: from when its taker
had the answer until something that may have ended its lease was begun, or its lease may have run out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from .double_lease import held_until_ns
from .final import Final
from .finding import Finding, Promises
from .indexed import Indexed, JobHistory, Lease

RULE = "limit exceeded"


class Span(NamedTuple):
    from_ns: int
    until_ns: int
    job: str
    lease: Lease


def check(history: Indexed, _final: Final, promises: Promises) -> Iterator[Finding]:
    if promises.may_forget:
        return
    spans: dict[str, list[Span]] = defaultdict(list)
    for job in history.jobs.values():
        for lease in job.leases:
            span = _span(history, job, lease, promises.slack_ms)
            if span.from_ns < span.until_ns:
                for key in lease.given.seen.limit_keys:
                    spans[key].append(span)
    for key, cap in promises.caps.items():
        yield from _exceeded(key, cap, spans.get(key, []))


def _span(history: Indexed, job: JobHistory, lease: Lease, slack_ms: int) -> Span:
    until_ns = min(held_until_ns(history, job, lease), lease.surely_until_ns(slack_ms))
    return Span(lease.given.answered_ns, until_ns, job.job, lease)


def _exceeded(key: str, cap: int, spans: list[Span]) -> Iterator[Finding]:
    """The first instant at which too many different jobs run."""
    running: list[Span] = []
    for span in sorted(spans, key=lambda one: one.from_ns):
        running = [one for one in running if one.until_ns > span.from_ns and one.job != span.job]
        running.append(span)
        if len(running) > cap:
            names = ", ".join(one.job for one in running)
            entries = tuple(entry for one in running for entry in one.lease.given.call.entries)
            yield Finding(RULE, key, f"{len(running)} jobs ran at once under a cap of {cap}: {names}.", entries)
            return
