"""A schedule: which job, in which rhythm, and what happens when runs overlap or were missed. When its occurrences are
is in occurrences.py."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from windlass.core.job import NewJob

from .repeat import is_same

Overlap: TypeAlias = Literal["allow", "skip", "replace"]
Misfire: TypeAlias = Literal["all", "latest", "none"]


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """Its rhythm is exactly one of `cron`, `every_ms` and `repeat`."""

    name: str  # unique in the deployment
    job: NewJob  # made for each occurrence
    cron: str = ""  # five fields, or six with seconds first
    timezone: str = "UTC"  # of the cron expression
    every_ms: int = 0  # counted from starts_at_ms, or from its creation
    repeat: str = ""  # a rule, see repeat.py; for STARTED and FINISHED, an occurrence is over when it has fired
    overlap: Overlap = "allow"  # when a job of an earlier occurrence has not ended
    misfire: Misfire = "latest"  # which of the missed occurrences are made up for
    misfire_after_ms: int = 60_000  # an occurrence that is later than this counts as missed
    starts_at_ms: int = 0  # no occurrence before; 0: now
    ends_at_ms: int = 0  # no occurrence after; 0: never ends

    def has_same_recurrence(self, other: Schedule) -> bool:
        fields = ("cron", "timezone", "every_ms", "starts_at_ms", "ends_at_ms")
        return is_same(self.repeat, other.repeat) and all(getattr(self, one) == getattr(other, one) for one in fields)


class ScheduleStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as it stands at one instant."""

    schedule: Schedule
    revision: int  # grows with each change, pause and resume; not with its occurrences
    created_at_ms: int
    planned_at_ms: int | None  # its next occurrence, also while it is paused; None: it is over
    is_paused: bool
    pause_reason: str
    last_planned_at_ms: int | None  # the occurrence of its last job; of a run by hand, the instant of it
    last_fired_at_ms: int | None
    last_job: bytes | None
    fired: int  # jobs made
    skipped: int  # occurrences without a job: an earlier one had not ended, or held its unique key
    missed: int  # occurrences that were too late, or found their queue full

    @property
    def next_at_ms(self) -> int | None:
        """When it fires next; None: it is paused or over."""
        return None if self.is_paused else self.planned_at_ms
