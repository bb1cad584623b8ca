"""After the drain no job waits or runs, and no limit counts a job."""

from __future__ import annotations

from collections.abc import Iterator

from .final_state import FinalState
from .finding import Finding, Guarantees
from .history_index import HistoryIndex

RULE = "left behind"
ENDED = ("finished", "failed", "cancelled")


def check(history: HistoryIndex, final: FinalState, guarantees: Guarantees) -> Iterator[Finding]:
    if not guarantees.is_drained:
        return
    for job in final.jobs.values():
        if job.state not in ENDED and job.queue not in guarantees.long_lived_queues:
            known = history.jobs.get(job.id)
            entries = known.enqueues[-1].entries if known and known.enqueues else ()
            yield Finding(RULE, job.id, f"It is still {job.state} in queue {job.queue} after the drain.", entries)
    for limit, running in final.limits.items():
        if running:
            yield Finding(RULE, limit, f"The limit counts {running} running jobs after the drain.")
