"""An expected callback arrives at least once, with the same content in each delivery."""

from __future__ import annotations

from collections.abc import Iterator

from .final_state import FinalState
from .finding import Finding, Guarantees
from .history_index import HistoryIndex, JobCall

CHANGED, MISSING = "callback changed", "callback missing"
ENDED = ("finished", "failed", "cancelled")


def check(history: HistoryIndex, final: FinalState, guarantees: Guarantees) -> Iterator[Finding]:
    for delivery, calls in history.deliveries.items():
        # Where reports may be lost, the job may have ended twice, with two results.
        if len({call.facts.digest for call in calls}) > 1 and not guarantees.may_lose_reports:
            entries = tuple(entry for call in calls for entry in call.entries)
            yield Finding(CHANGED, delivery, f"Its {len(calls)} deliveries do not have the same content.", entries)
    if guarantees.is_drained and not guarantees.may_lose_reports:
        for enqueue in history.enqueues:
            if enqueue.is_ok and enqueue.facts.expects_callback and not _is_settled(enqueue, history, final):
                yield _missing(enqueue)


def _is_settled(enqueue: JobCall, history: HistoryIndex, final: FinalState) -> bool:
    """Return whether the callback arrived or is still pending, or the job's end is not certain."""
    jobs = history.jobs_of(enqueue)
    known = final.find(enqueue.job_id, {enqueue.facts.key})
    if known is not None and known.id in final.pending_callbacks:
        return True
    for job in jobs:
        if job.job_id in final.pending_callbacks or any(call.is_ok for call in job.calls_named("callback")):
            return True
    return (known is None or known.state not in ENDED) and not any(_has_ended(job.calls) for job in jobs)


def _has_ended(calls: list[JobCall]) -> bool:
    return any(
        call.is_ok and call.facts.outcome in ENDED for call in calls if call.name in ("finish", "fail", "cancel")
    )


def _missing(enqueue: JobCall) -> Finding:
    sentence = "The job ended, but its callback neither arrived nor is pending."
    return Finding(MISSING, enqueue.job_id or enqueue.facts.key, sentence, enqueue.entries)
