"""Every acknowledged job has ended, or is still visible. Groups end by themselves: flows.py checks them."""

from __future__ import annotations

from collections.abc import Iterator

from .final_state import FinalState
from .finding import Finding, Guarantees
from .history_index import HistoryIndex, JobCall, JobHistory

RULE = "lost"
NOT_MADE = ("ended", "replaced", "refused")  # the job existed before, or was merged into another


def check(history: HistoryIndex, final: FinalState, guarantees: Guarantees) -> Iterator[Finding]:
    if guarantees.lost_allowed == "any":
        return
    for enqueue in lost(history, final):
        if guarantees.lost_allowed == "unconfirmed" and not enqueue.facts.is_durable:
            continue
        calls = [call for job in history.jobs_of(enqueue) for call in job.calls]
        last = max(calls, key=lambda call: call.begun_ns, default=enqueue)
        answer = f"{last.name} by {last.client} was answered {last.facts.outcome or last.phase}"
        entries = enqueue.entries if last is enqueue else enqueue.entries + last.entries
        sentence = (
            f"{enqueue.client} received an acknowledgement, but the job is gone without an end. "
            f"The last known call: {answer}."
        )
        yield Finding(RULE, enqueue.job_id or enqueue.facts.key, sentence, entries)


def lost(history: HistoryIndex, final: FinalState) -> list[JobCall]:
    """Return the acknowledged enqueues whose jobs are gone, whatever the guarantees, to measure losses."""
    return [
        enqueue
        for enqueue in history.enqueues
        if enqueue.is_ok
        and enqueue.facts.outcome not in NOT_MADE
        and not enqueue.facts.joins
        and not _exists(enqueue, history, final)
    ]


def _exists(enqueue: JobCall, history: HistoryIndex, final: FinalState) -> bool:
    if final.find(enqueue.job_id, {enqueue.facts.key}) is not None:
        return True
    return any(job.job_id in final.jobs or _may_be_removed(job) for job in history.jobs_of(enqueue))


def _may_be_removed(job: JobHistory) -> bool:
    """Return whether the job may have ended without a trace: finished, cancelled or called back. Failed jobs stay."""
    for call in job.calls:
        if call.name in ("finish", "cancel") and call.may_have_effect:
            return True
        if call.name in ("run", "callback") and call.is_ok:
            return True
    return False
