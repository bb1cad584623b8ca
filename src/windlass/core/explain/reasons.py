"""The explanation of a job: its reasons, and a summary.

Reasons are data, each with a sentence for people. Ids are in their text form, and everything encodes to JSON.
"""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

import msgspec

from windlass.core.text.humanize import humanize_instant, shorten

from .dependency_reasons import AwaitsMembers, DeletedMembers, HeldByParent, InSteps, NothingLeft
from .lease_reasons import Dispatched, LeaseOverdue, Running, StopRequested, WorkerSilent
from .pending_reasons import (
    Ahead,
    Expired,
    Expires,
    LimitFull,
    NameUnknown,
    Next,
    NoWorker,
    Paused,
    RateLimited,
    Scheduled,
    Unwanted,
    WorkersBusy,
)
from .reason import ReasonBase, describe_attempt
from .references import Cause
from .suspension_reasons import AwaitsChildren, AwaitsNextTry, AwaitsSignal, EndsByDeadline, Sleeps

__all__ = [
    "Ahead",
    "AwaitsChildren",
    "AwaitsMembers",
    "AwaitsNextTry",
    "AwaitsSignal",
    "DeletedMembers",
    "Dispatched",
    "Ended",
    "EndsByDeadline",
    "Expired",
    "Expires",
    "Explanation",
    "HeldByParent",
    "InSteps",
    "LeaseOverdue",
    "LimitFull",
    "NameUnknown",
    "Next",
    "NoWorker",
    "NothingLeft",
    "Paused",
    "RateLimited",
    "Reason",
    "Running",
    "Scheduled",
    "Sleeps",
    "StopRequested",
    "Unwanted",
    "WorkerSilent",
    "WorkersBusy",
]


class Ended(ReasonBase, frozen=True, kw_only=True):
    how: Literal["finished", "failed", "cancelled"]
    at_ms: int
    reason: str = ""  # of a failed or cancelled job
    attempt: int
    max_attempts: int
    kept: Literal["until", "always", "history", "needed"]
    kept_until_at_ms: int | None = None
    cause: Cause | None = None  # if it ended because of another job
    is_blocking: ClassVar[bool] = False

    def describe(self, now_ms: int) -> str:
        how = {"finished": "It finished", "failed": "It failed", "cancelled": "It was cancelled"}[self.how]
        attempt = f" in {describe_attempt(self.attempt, self.max_attempts)}" if self.attempt else ""
        why = f" {self.cause.describe()}" if self.cause else f": {shorten(self.reason)}" if self.reason else ""
        return f"{how} at {humanize_instant(self.at_ms, now_ms)}{attempt}{why}; {self._describe_retention(now_ms)}."

    def _describe_retention(self, now_ms: int) -> str:
        if self.kept == "until" and self.kept_until_at_ms is not None:
            return f"it is kept until {humanize_instant(self.kept_until_at_ms, now_ms)}"
        return {
            "history": "it stays in its queue's history until newer jobs replace it",
            "needed": "it is kept while another job needs its outcome",
        }.get(self.kept, "it is kept until it is deleted")


Reason: TypeAlias = (
    Scheduled | Expired | Expires | Paused | LimitFull | RateLimited | NoWorker | NameUnknown | Unwanted | WorkersBusy
    | Ahead | Next | HeldByParent | AwaitsMembers | DeletedMembers | NothingLeft | InSteps | Dispatched | Running
    | LeaseOverdue | WorkerSilent | StopRequested | Ended | Sleeps | AwaitsSignal | AwaitsChildren | AwaitsNextTry
    | EndsByDeadline
)  # fmt: skip


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Explanation of a job at one instant."""

    id: str
    queue: str
    name: str
    state: str
    at_ms: int
    summary: str
    reasons: list[Reason]  # most decisive first
