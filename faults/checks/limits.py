"""No limit is exceeded.

Only the time in which a job certainly held its slot counts: from the answer to its taker until the first call that may
have ended the lease, or until the earliest expiry of the lease."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from .double_lease import first_possible_end_ns
from .final_state import FinalState
from .finding import Finding, Guarantees
from .history_index import HistoryIndex, JobHistory, Lease

RULE = "limit exceeded"


class Span(NamedTuple):
    from_ns: int
    until_ns: int
    job_id: str
    lease: Lease


def check(history: HistoryIndex, _final: FinalState, guarantees: Guarantees) -> Iterator[Finding]:
    if guarantees.may_lose_reports:
        return
    spans: dict[str, list[Span]] = defaultdict(list)
    for job in history.jobs.values():
        for lease in job.leases:
            span = _span(history, job, lease, guarantees.slack_ms)
            if span.from_ns < span.until_ns:
                for key in lease.grant.facts.limit_keys:
                    spans[key].append(span)
    for key, cap in guarantees.caps.items():
        yield from _exceeded(key, cap, spans.get(key, []))


def _span(history: HistoryIndex, job: JobHistory, lease: Lease, slack_ms: int) -> Span:
    until_ns = min(first_possible_end_ns(history, job, lease), lease.earliest_expiry_ns(slack_ms))
    return Span(lease.grant.answered_ns, until_ns, job.job_id, lease)


def _exceeded(key: str, cap: int, spans: list[Span]) -> Iterator[Finding]:
    """Report the first instant at which too many different jobs run."""
    running: list[Span] = []
    for span in sorted(spans, key=lambda span: span.from_ns):
        running = [other for other in running if other.until_ns > span.from_ns and other.job_id != span.job_id]
        running.append(span)
        if len(running) > cap:
            names = ", ".join(other.job_id for other in running)
            entries = tuple(entry for other in running for entry in other.lease.grant.entries)
            yield Finding(RULE, key, f"{len(running)} jobs ran at once under a cap of {cap}: {names}.", entries)
            return
