"""Report of a migration."""

from __future__ import annotations

from collections import Counter

import msgspec

from .entries import FoundJob, LeftEntry, text_of

KEPT = 20  # problems and examples
SAMPLE = 5
SHOWN_MAX = 200  # characters of an entry


class Problem(msgspec.Struct, frozen=True):
    """An entry that was not moved."""

    key: str
    entry: str
    reason: str


class MigrationReport(msgspec.Struct, kw_only=True):
    """Counts of entries by outcome, and the first problems."""

    dialect: str
    source: str  # without its password
    is_dry_run: bool
    moved: int = 0
    moved_before: int = 0  # by an earlier run, or listed more than once
    existing: int = 0  # the target had a job with this key already
    callbacks: int = 0  # of the moved: ended jobs whose callback is delivered by Windlass
    in_flight: int = 0  # of the moved: a worker of the source had the job
    running: int = 0  # left in the source, because a worker has the job now
    changed_ids: int = 0  # of the moved: the id was changed to fit a partition
    problems: int = 0  # left in the source for another reason
    queues: Counter[str] = msgspec.field(default_factory=Counter)  # moved jobs by queue
    workers: dict[str, int] = {}  # workers in the source, by key
    progress: dict[str, float] = {}  # of the first jobs in progress
    files: int = 0  # that the source has planned to delete
    done: int = 0  # jobs of the source that need nothing any more
    sample: list[str] = []
    reasons: list[Problem] = []

    @property
    def is_complete(self) -> bool:
        return not self.problems and not self.running

    def note_left(self, left: LeftEntry) -> None:
        if left.is_running:
            self.running += 1
            return
        self.problems += 1
        if len(self.reasons) < KEPT:
            self.reasons.append(Problem(left.entry.key, text_of(left.entry.member)[:SHOWN_MAX], left.reason))

    def note_moved(self, found: FoundJob) -> None:
        self.moved += 1
        self.queues[found.job.queue] += 1
        self.callbacks += found.ended is not None
        self.in_flight += found.is_in_flight
        if len(self.sample) < SAMPLE:
            self.sample.append(found.identity.replace("\t", " "))
