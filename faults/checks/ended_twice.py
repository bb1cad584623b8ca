"""A job ends once: at most one finish is acknowledged, and none after an acknowledged cancel."""

from __future__ import annotations

from collections.abc import Iterator

from .final_state import FinalState
from .finding import Finding, Guarantees
from .history_index import HistoryIndex, JobCall, JobHistory

FINISHED_TWICE, CANCELLED = "finished twice", "ran after its cancel"


def check(history: HistoryIndex, final: FinalState, guarantees: Guarantees) -> Iterator[Finding]:
    if guarantees.may_lose_reports:
        return
    for job in history.jobs.values():
        if job.was_requeued:
            continue
        finishes = [call for call in job.calls_named("finish") if call.is_ok and call.facts.outcome == "finished"]
        if len(finishes) > 1:
            names = " and ".join(finish.client for finish in finishes)
            entries = tuple(entry for finish in finishes for entry in finish.entries)
            yield Finding(FINISHED_TWICE, job.job_id, f"The finishes of {names} were all acknowledged.", entries)
        for cancel in job.calls_named("cancel"):
            if cancel.is_ok and cancel.facts.outcome == "cancelled":
                yield from _check_cancelled(job, cancel, finishes, final)
                break


def _check_cancelled(job: JobHistory, cancel: JobCall, finishes: list[JobCall], final: FinalState) -> Iterator[Finding]:
    answer = f"{cancel.client} received the answer that the job is cancelled"
    for finish in finishes:
        sentence = f"{answer}, and {finish.client} that it is finished."
        yield Finding(CANCELLED, job.job_id, sentence, cancel.entries + finish.entries)
    for lease in job.leases:
        if lease.grant.begun_ns > cancel.answered_ns:
            sentence = f"{answer}; later the job was given to {lease.grant.client}."
            yield Finding(CANCELLED, job.job_id, sentence, cancel.entries + lease.grant.entries)
            break
    known = final.find(job.job_id, job.keys)
    if known is not None and known.state != "cancelled":
        sentence = f"{answer}; its final state is {known.state}."
        yield Finding(CANCELLED, job.job_id, sentence, cancel.entries)
