"""When all has drained, nothing waits or runs any more, no limit counts a job, and the doctor finds nothing."""

from __future__ import annotations

from collections.abc import Iterator

from .final import Final
from .finding import Finding, Promises
from .indexed import Indexed

RULE = "left behind"
ENDED = ("finished", "failed", "cancelled")


def check(history: Indexed, final: Final, promises: Promises) -> Iterator[Finding]:
    if not promises.is_drained:
        return
    for job in final.jobs.values():
        if job.state not in ENDED and job.queue not in promises.lasting:
            known = history.jobs.get(job.id)
            entries = known.enqueues[-1].call.entries if known and known.enqueues else ()
            yield Finding(RULE, job.id, f"It is still {job.state} in queue {job.queue} when all has drained.", entries)
    for limit, running in final.limits.items():
        if running:
            yield Finding(RULE, limit, f"The limit counts {running} running jobs when all has drained.")
