"""Reasons why a job is suspended: the waits of its code."""

from __future__ import annotations

from typing import ClassVar

from windlass.core.durable import DEADLINE_STEP, StepKind
from windlass.core.text.humanize import humanize_instant, humanize_since, pluralize, quote_text

from .inputs import SuspendedOn
from .reason import ReasonBase


class Sleeps(ReasonBase, frozen=True, kw_only=True):
    step: str
    until_at_ms: int

    def describe(self, now_ms: int) -> str:
        at = humanize_instant(self.until_at_ms, now_ms)
        if self.until_at_ms <= now_ms:
            return f"Its sleep was over at {at}: the next taker or the scheduler moves it into its queue."
        return f"It sleeps until {at}."


class AwaitsSignal(ReasonBase, frozen=True, kw_only=True):
    signal: str
    since_at_ms: int
    until_at_ms: int | None = None

    def describe(self, now_ms: int) -> str:
        since = humanize_since(self.since_at_ms, now_ms)
        ends = f", times out at {humanize_instant(self.until_at_ms, now_ms)}" if self.until_at_ms else ""
        return f"It waits for signal {quote_text(self.signal)} since {since}{ends}."


class AwaitsChildren(ReasonBase, frozen=True, kw_only=True):
    step: str
    pending: int
    total: int

    def describe(self, now_ms: int) -> str:
        return f"It waits for {self.pending} of {self.total} {'child' if self.total == 1 else 'children'}."


class AwaitsNextTry(ReasonBase, frozen=True, kw_only=True):
    step: str
    tries: int
    until_at_ms: int

    def describe(self, now_ms: int) -> str:
        at = humanize_instant(self.until_at_ms, now_ms)
        failed = f"failed {pluralize(self.tries, 'time')}"
        return f"Its step {quote_text(self.step)} {failed} and is tried again at {at}."


class EndsByDeadline(ReasonBase, frozen=True, kw_only=True):
    at_ms: int
    is_blocking: ClassVar[bool] = False

    def describe(self, now_ms: int) -> str:
        return f"If it has not ended by {humanize_instant(self.at_ms, now_ms)}, it fails with reason deadline."


SuspensionReason = EndsByDeadline | Sleeps | AwaitsSignal | AwaitsChildren | AwaitsNextTry


def suspension_reason(wait: SuspendedOn, since_at_ms: int) -> SuspensionReason:
    """Return the reason for one wait of a suspended job."""
    step = wait.step
    if step.kind is StepKind.SIGNAL:
        begun_at_ms = step.begun_at_ms or since_at_ms
        return AwaitsSignal(signal=step.signal, since_at_ms=begun_at_ms, until_at_ms=step.wake_at_ms)
    if step.kind is StepKind.CHILDREN:
        return AwaitsChildren(step=step.name, pending=wait.pending_children, total=len(step.children))
    if step.kind is StepKind.STEP:
        return AwaitsNextTry(step=step.name, tries=step.tries, until_at_ms=step.wake_at_ms or 0)
    if step.name == DEADLINE_STEP:
        return EndsByDeadline(at_ms=step.wake_at_ms or 0)
    return Sleeps(step=step.name, until_at_ms=step.wake_at_ms or 0)
