"""Reasons why a job waits for other jobs."""

from __future__ import annotations

from windlass.core.text.humanize import list_first, pluralize

from .reason import ReasonBase
from .references import HANDING_OVER, HIDDEN, STEPS, Related, Step


class HeldByParent(ReasonBase, frozen=True, kw_only=True):
    parent: Related

    def describe(self, now_ms: int) -> str:
        if self.parent.state == HIDDEN:
            return f"Its parent {self.parent.id}, which is in another queue, holds it."
        parent = f"Its parent {self.parent.id} ({self.parent.state})"
        if self.parent.state in HANDING_OVER:
            return f"{parent} holds it until it hands over."
        return f"{parent} has handed over or no longer exists: the job will be released soon."


class AwaitsMembers(ReasonBase, frozen=True, kw_only=True):
    count: int  # members that have not ended, without deleted members
    members: list[Related]  # the first ten
    is_group: bool = False

    def describe(self, now_ms: int) -> str:
        which = list_first([f"{member.id} ({member.state})" for member in self.members], self.count)
        what = (
            f"{pluralize(self.count, 'member')} of this group"
            if self.is_group
            else f"{pluralize(self.count, 'job')} it waits for"
        )
        return f"{what} {'has' if self.count == 1 else 'have'} not ended: {which}."


class DeletedMembers(ReasonBase, frozen=True, kw_only=True):
    count: int
    members: list[str]  # the first ten

    def describe(self, now_ms: int) -> str:
        what = f"{pluralize(self.count, 'job')} it waits for {'was' if self.count == 1 else 'were'} deleted"
        return f"{what} and will never end ({list_first(self.members, self.count)}): use wake to let it continue."


class NothingLeft(ReasonBase, frozen=True, kw_only=True):
    """The last member of the job was deleted. A deletion does not end the wait of other jobs."""

    def describe(self, now_ms: int) -> str:
        return "No job that it waits for is left, and nothing will end its wait: use wake to let it continue."


class InSteps(ReasonBase, frozen=True, kw_only=True):
    """Many dependencies are processed in steps, by idle takers and the scheduler."""

    steps: list[Step]

    def describe(self, now_ms: int) -> str:
        steps = ", and ".join(STEPS[step] for step in self.steps)
        return f"Its dependencies are still processed in steps: {steps}."
