"""Schedules: the job to create, its recurrence, and the policies for overlapping and missed runs.

`occurrences.py` computes the occurrences.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from windlass.core.job import NewJob

from .repeat import is_same

Overlap: TypeAlias = Literal["allow", "skip", "replace"]
Misfire: TypeAlias = Literal["all", "latest", "none"]


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule. Its recurrence is exactly one of `cron`, `every_ms` and `repeat`."""

    name: str  # unique in the deployment
    job: NewJob  # created for each occurrence
    cron: str = ""  # five fields, or six with seconds first
    timezone: str = "UTC"  # of the cron expression
    every_ms: int = 0  # counted from starts_at_ms, or from its creation
    repeat: str = ""  # a rule, see repeat.py; STARTED and FINISHED mean the instant at which an occurrence fired
    overlap: Overlap = "allow"  # when a job of an earlier occurrence has not ended
    misfire: Misfire = "latest"  # which missed occurrences still fire
    misfire_after_ms: int = 60_000  # an occurrence that is later than this counts as missed
    starts_at_ms: int = 0  # no occurrence before; 0: now
    ends_at_ms: int = 0  # no occurrence after; 0: never ends

    def has_same_recurrence(self, other: Schedule) -> bool:
        fields = ("cron", "timezone", "every_ms", "starts_at_ms", "ends_at_ms")
        return is_same(self.repeat, other.repeat) and all(
            getattr(self, field) == getattr(other, field) for field in fields
        )


class ScheduleStatus(msgspec.Struct, frozen=True, kw_only=True):
    """State of a schedule at one instant."""

    schedule: Schedule
    revision: int  # grows with each change, pause and resume; not with its occurrences
    created_at_ms: int
    planned_at_ms: int | None  # its next occurrence, also while it is paused; None: it has ended
    is_paused: bool
    pause_reason: str
    last_planned_at_ms: int | None  # the occurrence of its last job; for a manual run, the time of the run
    last_fired_at_ms: int | None
    last_job: bytes | None
    fired: int  # created jobs
    skipped: int  # occurrences without a job: an earlier job had not ended, or held the unique key
    missed: int  # occurrences that were too late, or whose queue was full
    last_jobs: tuple[bytes, ...] = ()  # the newest first, at most 20; some may no longer exist

    @property
    def next_at_ms(self) -> int | None:
        """Next time it fires; None: it is paused or has ended."""
        return None if self.is_paused else self.planned_at_ms


class SchedulePage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of schedules by name."""

    schedules: list[ScheduleStatus]
    after: str  # name after which the next page begins; empty: this is the last page
    count: int  # of all schedules, also of other queues
