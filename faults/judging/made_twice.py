"""One enqueue makes one job, however often its caller repeated it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from .final import Final
from .finding import Finding, Promises
from .indexed import Indexed

RULE = "made twice"


def check(history: Indexed, final: Final, _promises: Promises) -> Iterator[Finding]:
    ids_of_key: dict[str, set[str]] = defaultdict(set)
    for key, ids in history.ids_of_key.items():
        ids_of_key[key] |= ids
    for job in final.jobs.values():
        if job.key:
            ids_of_key[job.key].add(job.id)
    for key, ids in ids_of_key.items():
        if len(ids) > 1:
            deeds = [one for one in history.enqueues if one.seen.key == key]
            entries = tuple(entry for one in deeds for entry in one.call.entries)
            yield Finding(RULE, key, f"One enqueue has made {len(ids)} jobs: {', '.join(sorted(ids))}.", entries)
