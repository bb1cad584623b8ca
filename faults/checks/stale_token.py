"""A report with an old token is refused. A token is certainly old once a client has received a newer one."""

from __future__ import annotations

from collections.abc import Iterator

from .final_state import FinalState
from .finding import Finding, Guarantees
from .history_index import HistoryIndex

RULE = "stale token"
REPORTS = ("finish", "fail", "release", "extend", "suspend")


def check(history: HistoryIndex, _final: FinalState, guarantees: Guarantees) -> Iterator[Finding]:
    if guarantees.may_lose_reports:
        return
    for job in history.jobs.values():
        newest = sorted((lease for lease in job.leases if lease.token), key=lambda lease: -lease.token)
        for call in job.calls_named(*REPORTS):  # type: ignore[arg-type]
            if not call.is_ok or not call.facts.token:
                continue
            newer = next((lease for lease in newest if lease.grant.answered_ns < call.begun_ns), None)
            if newer is not None and newer.token > call.facts.token:
                reporter, holder = call.client, newer.grant.client
                sentence = (
                    f"{call.name} by {reporter} was accepted with token {call.facts.token}, "
                    f"after {holder} had received token {newer.token}."
                )
                yield Finding(RULE, job.job_id, sentence, newer.grant.entries + call.entries)
