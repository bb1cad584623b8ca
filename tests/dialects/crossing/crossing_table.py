"""Table of the crossings: every dialect as the creator, the worker and the watcher of a job.

The test of the crossings and the table in docs/dialects.md are made from it."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias

Dialect: TypeAlias = Literal["jobber", "processor", "bedrock", "lightjq", "downloader", "native", "sdk"]
Outcome: TypeAlias = Literal["success", "failure", "retry", "cancel"]
DIALECTS: Final[tuple[Dialect, ...]] = ("jobber", "processor", "bedrock", "lightjq", "downloader", "native", "sdk")
OUTCOMES: Final[tuple[Outcome, ...]] = ("success", "failure", "retry", "cancel")
TITLES: Final[dict[Dialect, str]] = {
    "jobber": "Jobber",
    "processor": "processor",
    "bedrock": "Bedrock",
    "lightjq": "LightJQ",
    "downloader": "downloader",
    "native": "native HTTP",
    "sdk": "SDK",
}


class Cell(NamedTuple):
    """Meaning of a pair of creator and worker. Without a reason the pair works."""

    kind: Literal["works", "refused with", "no such side"]
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.reason}".rstrip()


WORKS = Cell("works")
NO_SUCH_SIDE = Cell("no such side")

# Creator -> worker -> cell. A pair that is missing here fails its test.
CROSSINGS: Final[dict[Dialect, dict[Dialect, Cell]]] = {
    creator: {worker: NO_SUCH_SIDE if worker == "jobber" else WORKS for worker in DIALECTS} for creator in DIALECTS
}

# The queue of a dialect's jobs when its client names none. The others name one with every job.
HOME_QUEUES: Final[dict[Dialect, str]] = {
    "jobber": "job_queue_crossing",
    "processor": "pictures",
    "bedrock": "bedrock",
    "lightjq": "lightjq",
    "downloader": "downloads",
    "native": "pictures",
    "sdk": "pictures",
}
SHARED_QUEUE = "shared"


def queue_of(creator: Dialect, worker: Dialect, outcome: Outcome) -> str:
    """Return the queue for a test: the creator's, the worker's, or one that neither uses by default."""
    if "downloader" in (creator, worker):
        return HOME_QUEUES["downloader"]
    if outcome == "success":
        return HOME_QUEUES[creator]
    return HOME_QUEUES[worker] if outcome == "failure" else SHARED_QUEUE
