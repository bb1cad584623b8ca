"""Jobs that cross front ends: enqueued through one and run by a worker of another."""

from __future__ import annotations

from ..checks import HistoryIndex
from ..checks.history_index import JobHistory

# Words in the names of clients. Clients of the SDK and of the engine itself count as one front end.
FRONT_ENDS = ("http", "bedrock", "lightjq", "push", "jobber", "downloader", "processor", "crossing")
SAME = {"push": "lightjq", "crossing": "http"}
OWN = "engine"


def front_end_of(client: str) -> str:
    found = next((name for name in FRONT_ENDS if name in client), OWN)
    return SAME.get(found, found)


def count_crossings(history: HistoryIndex) -> int:
    return sum(_crosses(job) for job in history.jobs.values())


def _crosses(job: JobHistory) -> bool:
    enqueued = {front_end_of(enqueue.client) for enqueue in job.enqueues if enqueue.is_ok}
    runs = [*(lease.grant for lease in job.leases), *job.calls_named("run")]
    return bool(enqueued) and any(run.client != "drainer" and front_end_of(run.client) not in enqueued for run in runs)
