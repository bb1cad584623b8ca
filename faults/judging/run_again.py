"""A job whose end was acknowledged is not given to anybody later."""

from __future__ import annotations

from collections.abc import Iterator

from .final import Final
from .finding import Finding, Promises
from .indexed import Indexed

RULE = "ran after its end"
ENDS = {"finish": ("finished",), "fail": ("failed", "cancelled")}


def check(history: Indexed, final: Final, promises: Promises) -> Iterator[Finding]:
    if promises.may_forget:
        return
    for job in history.jobs.values():
        ends = [one for one in job.deeds if one.is_ok and one.seen.outcome in ENDS.get(one.what, ())]
        if not ends or job.is_revived:
            continue
        end = min(ends, key=lambda one: one.answered_ns)
        again = next((one for one in job.leases if one.given.begun_ns > end.answered_ns), None)
        if again is not None:
            sentence = f"{end.call.begun.client} ended it; later it was given to {again.given.call.begun.client}."
            yield Finding(RULE, job.job, sentence, end.call.entries + again.given.call.entries)
            continue
        known = final.find(job.job, job.keys)
        if known is not None and known.state not in ("finished", "failed", "cancelled"):
            words = f"{end.call.begun.client} ended it; at last it is {known.state}."
            yield Finding(RULE, job.job, words, end.call.entries)
