"""Reasons about the lease of a job: its holder, its deadline, and problems with it."""

from __future__ import annotations

from typing import ClassVar, Literal

from windlass.core.text.humanize import humanize_age, humanize_instant, humanize_since

from .reason import ReasonBase, describe_attempt
from .references import Holder


def _describe_holder(holder: Holder | None) -> str:
    return f"Worker {holder.describe()}" if holder else "A taker without a worker id"


class Dispatched(ReasonBase, frozen=True, kw_only=True):
    worker: Holder | None
    since_at_ms: int
    accept_until_at_ms: int
    attempt: int
    max_attempts: int
    is_blocking: ClassVar[bool] = False

    def describe(self, now_ms: int) -> str:
        until = humanize_instant(self.accept_until_at_ms, now_ms)
        received = f"{_describe_holder(self.worker)} received it {humanize_age(self.since_at_ms, now_ms)}"
        return f"{received} and must accept it by {until}, otherwise it returns to its queue."


class Running(ReasonBase, frozen=True, kw_only=True):
    worker: Holder | None
    since_at_ms: int
    attempt: int
    max_attempts: int  # 0: unlimited
    deadline_at_ms: int | None  # None: the lease has no deadline
    lease_renewed_at_ms: int | None = None  # if the lease has the length that the job or the queue sets
    is_lease_fixed: bool = False  # `lease_renewal` of the queue is off: heartbeats do not move the deadline
    timeout_at_ms: int | None = None  # of the execution
    is_blocking: ClassVar[bool] = False

    def describe(self, now_ms: int) -> str:
        attempt = describe_attempt(self.attempt, self.max_attempts)
        started = f"{humanize_since(self.since_at_ms, now_ms)}, {attempt}"
        running = f"{_describe_holder(self.worker)} has been running it since {started}"
        return running + self._describe_lease(now_ms) + self._describe_heartbeat(now_ms) + "."

    def _describe_lease(self, now_ms: int) -> str:
        if self.deadline_at_ms is None:
            return "; its lease has no deadline"
        if self.deadline_at_ms <= now_ms:
            return ""
        until = humanize_instant(self.deadline_at_ms, now_ms)
        if self.is_lease_fixed:
            return f"; its lease is not renewed in this queue: if it has not ended by {until}, it returns to its queue"
        return f"; its lease holds until {until}"

    def _describe_heartbeat(self, now_ms: int) -> str:
        beat_at_ms = self.worker.beat_at_ms if self.worker else None
        if beat_at_ms is not None:
            return f", and the worker's last heartbeat was {humanize_age(beat_at_ms, now_ms)}"
        if self.lease_renewed_at_ms is None or self.lease_renewed_at_ms <= self.since_at_ms:
            return ""
        return f", and was renewed {humanize_age(self.lease_renewed_at_ms, now_ms)}"


class LeaseOverdue(ReasonBase, frozen=True, kw_only=True, tag="overdue"):
    """The lease, the execution timeout or the time to accept has passed."""

    since_at_ms: int
    why: Literal["lease", "timeout", "accept"]
    may_be_retaken: bool = False  # it stays running, and another worker may take it

    def describe(self, now_ms: int) -> str:
        at = humanize_instant(self.since_at_ms, now_ms)
        if self.why == "timeout":
            return f"It exceeded its execution timeout at {at}: the recoverer ends this attempt."
        if self.why == "accept":
            return f"It was not accepted by {at}: the next taker or the recoverer returns it to its queue."
        if self.may_be_retaken:
            return f"Its lease expired at {at}: another worker may take it, and until then its holder may still report."
        return f"Its lease expired at {at}: the next taker or the recoverer takes it from its holder."


class WorkerSilent(ReasonBase, frozen=True, kw_only=True):
    since_at_ms: int

    def describe(self, now_ms: int) -> str:
        at = humanize_instant(self.since_at_ms, now_ms)
        return (
            f"The heartbeat of its worker was due by {at}: the worker counts as lost, and the recoverer takes the job "
            "back."
        )


class StopRequested(ReasonBase, frozen=True, kw_only=True):
    def describe(self, now_ms: int) -> str:
        return "It was asked to stop, and its worker has not reported yet."
