"""An enqueue makes one job, however often its caller repeats it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from .final_state import FinalState
from .finding import Finding, Guarantees
from .history_index import HistoryIndex

RULE = "made twice"


def check(history: HistoryIndex, final: FinalState, _guarantees: Guarantees) -> Iterator[Finding]:
    ids_of_key: dict[str, set[str]] = defaultdict(set)
    for key, ids in history.ids_of_key.items():
        ids_of_key[key] |= ids
    for job in final.jobs.values():
        if job.key:
            ids_of_key[job.key].add(job.id)
    for key, ids in ids_of_key.items():
        if len(ids) > 1:
            calls = [enqueue for enqueue in history.enqueues if enqueue.facts.key == key]
            entries = tuple(entry for call in calls for entry in call.entries)
            yield Finding(RULE, key, f"One enqueue made {len(ids)} jobs: {', '.join(sorted(ids))}.", entries)
