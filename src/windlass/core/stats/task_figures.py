"""Figures of tasks: how often a task finished and failed, and how long it ran, as the workers of the SDK measured it.

Run times are counted in buckets: one below a millisecond, then four of equal width between two powers of two. So a
percentile is accurate to a quarter of its value. Histograms can be added.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TypeAlias

import msgspec

from .failure_groups import FailureGroup

BUCKET_MAX = 128  # from 31 powers of two: longer runs, of more than 24 days, count there
TASKS_PER_REPORT = 500  # queues and names
TASKS_KEPT = 1_000  # queues and names, in a partition
STEPS_MAX = 1_440
RunTimes: TypeAlias = dict[int, int]  # bucket -> runs


def bucket_of(run_ms: float) -> int:
    """Return the bucket of a run time."""
    if run_ms < 1:
        return 0
    fraction, exponent = math.frexp(run_ms)  # the fraction is at least a half and less than one
    return min(BUCKET_MAX, 1 + 4 * (exponent - 1) + int(8 * fraction) - 4)


def bucket_bounds(bucket: int) -> tuple[float, float]:
    """Return the shortest run time of a bucket, and that of the next."""
    if bucket == 0:
        return 0, 1
    octave, part = divmod(bucket - 1, 4)
    return 2**octave * (1 + part / 4), 2**octave * (1 + (part + 1) / 4)


def percentile(runs: Mapping[int, int], share: float) -> int | None:
    """Return the approximate run time in ms that this share (0 to 1) of all runs does not exceed; None without runs.

    Run times are assumed to be spread evenly within a bucket."""
    wanted = share * sum(runs.values())
    high = 0.0
    for bucket, count in sorted(runs.items()):
        low, high = bucket_bounds(bucket)
        if wanted <= count:
            return round(low + (high - low) * wanted / count)
        wanted -= count
    return round(high) if runs else None


class TaskSums(msgspec.Struct, frozen=True, kw_only=True):
    """Ends of the attempts of one task in one queue. A retried attempt has failed, and its job is tried again."""

    queue: str
    name: str
    failed: int = 0
    retried: int = 0
    cancelled: int = 0
    runs: RunTimes = {}  # finished attempts, by their run time


class TaskFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Ends of attempts in a range of time."""

    finished: int = 0
    failed: int = 0
    retried: int = 0
    cancelled: int = 0
    runs: RunTimes = {}

    @property
    def failed_attempts(self) -> int:
        return self.failed + self.retried

    @property
    def run_p50_ms(self) -> int | None:
        return percentile(self.runs, 0.5)

    @property
    def run_p95_ms(self) -> int | None:
        return percentile(self.runs, 0.95)

    @property
    def run_p99_ms(self) -> int | None:
        return percentile(self.runs, 0.99)


class TaskStep(TaskFigures, frozen=True, kw_only=True):
    """Figures of one step of a history."""

    at_ms: int


def sum_figures(several: Iterable[TaskFigures]) -> TaskFigures:
    failed = retried = cancelled = 0
    runs: RunTimes = {}
    for figures in several:
        failed += figures.failed
        retried += figures.retried
        cancelled += figures.cancelled
        for bucket, count in figures.runs.items():
            runs[bucket] = runs.get(bucket, 0) + count
    return TaskFigures(finished=sum(runs.values()), failed=failed, retried=retried, cancelled=cancelled, runs=runs)


def roll_up(minutes: Iterable[TaskStep], step_ms: int) -> list[TaskStep]:
    """Return the minutes summed into steps, in order. Steps without ended attempts are left out."""
    steps: dict[int, list[TaskStep]] = {}
    for minute in minutes:
        steps.setdefault(minute.at_ms // step_ms * step_ms, []).append(minute)
    return [
        TaskStep(at_ms=at_ms, **msgspec.structs.asdict(sum_figures(parts))) for at_ms, parts in sorted(steps.items())
    ]


class TaskSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A task, with its figures of the last hour."""

    name: str
    queues: tuple[str, ...]  # where it ran within two days, or where its failed jobs are
    figures: TaskFigures
    failures: int  # failed jobs that are kept, among those that were examined
    workers: int  # live workers that know it
    reported_at_ms: int | None = None  # of its last figures


class TaskWorker(msgspec.Struct, frozen=True, kw_only=True):
    """A live worker that knows a task."""

    id: bytes
    name: str
    host: str
    queues: tuple[str, ...]


class TaskPage(msgspec.Struct, frozen=True, kw_only=True):
    """A task: its figures over a range of time, in steps, its workers, and its failed jobs by error."""

    name: str
    queues: tuple[str, ...]
    figures: TaskFigures
    steps: list[TaskStep]
    workers: list[TaskWorker]
    failures: list[FailureGroup]
    failures_looked_at: int  # examined failed jobs
    has_all_failures: bool  # no other failed jobs exist
    reported_at_ms: int | None = None
    suggestion: str = ""  # a known name that is similar, if nothing is known of this one
    at_ms: int

    @property
    def is_known(self) -> bool:
        return bool(self.queues or self.workers or self.failures or self.reported_at_ms)
