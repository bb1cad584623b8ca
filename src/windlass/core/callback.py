"""A notice owed when a job ends, as those who deliver it and those who look at it see it. `Callback`, what a producer
asks for, is part of a job."""

from __future__ import annotations

import msgspec

from .ids import format_id
from .job import Attempt, Blob, Callback, Job

GIVEN_UP_KEPT_MS = 14 * 86_400_000
GIVEN_UP_MOST = 10_000  # per partition; the oldest go first


class Debt(msgspec.Struct, frozen=True, kw_only=True):
    """One callback of one end of a job. It survives the job."""

    id: bytes  # the same in every attempt: a receiver can tell a repetition by it
    job: Job  # as it ended; a payload beyond 64 KiB is cut
    callback: Callback
    result: Blob | None  # as reported, also when the job does not keep it
    is_result_too_big: bool  # there was one beyond 64 KiB
    last_attempt: Attempt | None  # of a job that did not end well
    attempt: int  # deliveries begun so far, this one included
    error: str  # why the last delivery failed
    token: int = 0  # of the lease; 0 for those who only look
    due_at_ms: int | None = None  # of one that is looked at
    removed_at_ms: int | None = None  # of one that was given up

    @property
    def key(self) -> str:
        """The id as people write it."""
        return f"{format_id(self.id[:16])}-{int.from_bytes(self.id[16:], 'big')}"


class Debts(msgspec.Struct, frozen=True):
    """What was leased to be delivered, and when the next is due."""

    debts: list[Debt]
    next_due_at_ms: int | None


class DebtPage(msgspec.Struct, frozen=True):
    """`cursor` is empty at the end."""

    debts: list[Debt]
    cursor: str


class JobCallbacks(msgspec.Struct, frozen=True):
    """Of one job: what is owed (`due_at_ms`) and what was given up (`removed_at_ms`). What was delivered is gone."""

    debts: list[Debt]
    is_all: bool  # False: there are so many callbacks of all jobs that not all were looked at


class HeldDebt(msgspec.Struct, frozen=True):
    """A leased debt as its holder knows it."""

    id: bytes
    token: int


class Undelivered(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery that failed: when to try again, or that nobody will."""

    id: bytes
    token: int
    delay_ms: int = 0
    error: str = ""
    give_up: bool = False
