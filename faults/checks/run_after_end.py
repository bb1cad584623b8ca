"""A job is not given to a worker after its end was acknowledged."""

from __future__ import annotations

from collections.abc import Iterator

from .final_state import FinalState
from .finding import Finding, Guarantees
from .history_index import HistoryIndex

RULE = "ran after its end"
ENDS = {"finish": ("finished",), "fail": ("failed", "cancelled")}


def check(history: HistoryIndex, final: FinalState, guarantees: Guarantees) -> Iterator[Finding]:
    if guarantees.may_lose_reports:
        return
    for job in history.jobs.values():
        ends = [call for call in job.calls if call.is_ok and call.facts.outcome in ENDS.get(call.name, ())]
        if not ends or job.was_requeued:
            continue
        end = min(ends, key=lambda call: call.answered_ns)
        again = next((lease for lease in job.leases if lease.grant.begun_ns > end.answered_ns), None)
        if again is not None:
            taker = again.grant.client
            sentence = f"{end.client} ended it; later it was given to {taker}."
            yield Finding(RULE, job.job_id, sentence, end.entries + again.grant.entries)
            continue
        known = final.find(job.job_id, job.keys)
        if known is not None and known.state not in ("finished", "failed", "cancelled"):
            sentence = f"{end.client} ended it; its final state is {known.state}."
            yield Finding(RULE, job.job_id, sentence, end.entries)
