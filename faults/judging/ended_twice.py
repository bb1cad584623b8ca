"""A job ends once: one finish is acknowledged, and none of a job whose cancel was acknowledged as done."""

from __future__ import annotations

from collections.abc import Iterator

from .final import Final
from .finding import Finding, Promises
from .indexed import Deed, Indexed, JobHistory

FINISHED_TWICE, CANCELLED = "finished twice", "ran after its cancel"


def check(history: Indexed, final: Final, promises: Promises) -> Iterator[Finding]:
    if promises.may_forget:
        return
    for job in history.jobs.values():
        if job.is_revived:
            continue
        finishes = [one for one in job.of("finish") if one.is_ok and one.seen.outcome == "finished"]
        if len(finishes) > 1:
            names = " and ".join(one.call.begun.client for one in finishes)
            entries = tuple(entry for one in finishes for entry in one.call.entries)
            yield Finding(FINISHED_TWICE, job.job, f"The finishes of {names} were all acknowledged.", entries)
        for cancel in job.of("cancel"):
            if cancel.is_ok and cancel.seen.outcome == "cancelled":
                yield from _after_cancel(job, cancel, finishes, final)
                break


def _after_cancel(job: JobHistory, cancel: Deed, finishes: list[Deed], final: Final) -> Iterator[Finding]:
    who = cancel.call.begun.client
    for finish in finishes:
        sentence = f"{who} was told that it is cancelled, and {finish.call.begun.client} that it is finished."
        yield Finding(CANCELLED, job.job, sentence, cancel.call.entries + finish.call.entries)
    for lease in job.leases:
        if lease.given.begun_ns > cancel.answered_ns:
            sentence = f"{who} was told that it is cancelled; later it was given to {lease.given.call.begun.client}."
            yield Finding(CANCELLED, job.job, sentence, cancel.call.entries + lease.given.call.entries)
            break
    known = final.find(job.job, job.keys)
    if known is not None and known.state != "cancelled":
        sentence = f"{who} was told that it is cancelled, and in the end it is {known.state}."
        yield Finding(CANCELLED, job.job, sentence, cancel.call.entries)
