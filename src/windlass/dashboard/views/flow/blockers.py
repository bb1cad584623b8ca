"""Blockers of a flow: failed and cancelled steps, running steps, steps that no worker takes or knows, and deleted
steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from windlass.core.errors import Refusal
from windlass.core.flow import Flow, FlowStep
from windlass.core.flow.graph import find_causes
from windlass.core.job import Timeline
from windlass.core.states import State
from windlass.core.text.error_text import error_line
from windlass.dashboard.page_context import PageContext

CAUSES_SHOWN = 5
RUNNING_SHOWN = 5
EXPLAINED = 3  # steps that wait in a queue, of different tasks; each costs a call to the engine
DELETED_SHOWN = 5
QUEUES_EXAMINED = 3  # for names that no worker knows; each costs a call to the engine
NAMES_EXAMINED = 100  # of a queue
LINE_MAX = 400  # characters of an error


class Cause(NamedTuple):
    """A step that failed or was cancelled by itself."""

    step: FlowStep
    line: str  # error of its last attempt; empty: unknown
    stopped: int  # steps that could not run because of it


class Pending(NamedTuple):
    """A step that no worker has taken, with the first reason."""

    step: FlowStep
    alike: int  # more steps of its task, queue and state
    sentence: str


class UnknownTask(NamedTuple):
    """A task that no worker has, and the first step that needs it."""

    step: FlowStep
    sentence: str


class Blockers(NamedTuple):
    """Steps to show, and the number of all such steps or of those that are not shown."""

    causes: list[Cause]
    cause_count: int
    running: list[FlowStep]
    running_count: int
    unknown: list[UnknownTask]
    pending: list[Pending]
    more_pending: int  # steps that are not explained
    deleted: list[FlowStep]
    deleted_count: int

    @property
    def is_empty(self) -> bool:
        return not (self.cause_count or self.running_count or self.unknown or self.pending or self.deleted_count)


async def find_blockers(page: PageContext[Any], flow: Flow) -> Blockers:
    """Find what blocks the flow, with at most 1 + EXPLAINED + QUEUES_EXAMINED calls to the engine."""
    steps = flow.steps
    causes = [step for step in steps if step.is_cause]
    running = [step for step in steps if step.state in (State.RUNNING, State.DISPATCHED)]
    pending = [step for step in steps if step.state in (State.QUEUED, State.SCHEDULED, State.SUSPENDED)]
    deleted = [step for step in steps if step.state is None]
    if not pending and not running:
        pending = [step for step in steps if step.state is State.WAITING][:1]  # waits for something outside the flow
    unknown = await _find_unknown(page, steps)
    missing = {(task.step.queue, task.step.name) for task in unknown}
    pending = [step for step in pending if (step.queue, step.name) not in missing]
    explained = await _explain(page, pending)
    return Blockers(
        await _describe_causes(page, steps, causes[:CAUSES_SHOWN]),
        len(causes),
        running[:RUNNING_SHOWN],
        len(running),
        unknown,
        explained,
        len(pending) - sum(1 + found.alike for found in explained),
        deleted[:DELETED_SHOWN],
        len(deleted),
    )


async def _describe_causes(
    page: PageContext[Any], steps: Sequence[FlowStep], causes: Sequence[FlowStep]
) -> list[Cause]:
    stopped = Counter(cause.job_id for cause in find_causes(steps).values())
    kept = [step.job_id for step in causes if step.is_kept]
    found = dict(zip(kept, await page.service.job(kept), strict=True)) if kept else {}
    return [Cause(step, _last_error(found.get(step.job_id)), stopped[step.job_id]) for step in causes]


def _last_error(found: object) -> str:
    if not isinstance(found, Timeline) or not found.attempts:
        return ""
    last = found.attempts[-1]
    if last.error is None and last.reason == "error":
        return ""  # its worker gave no message
    return error_line(last.reason, last.error).strip().partition("\n")[0][:LINE_MAX]


async def _find_unknown(page: PageContext[Any], steps: Sequence[FlowStep]) -> list[UnknownTask]:
    """Find tasks that no worker has, also of steps that wait for other steps."""
    wanted: dict[str, dict[str, FlowStep]] = {}
    for step in steps:
        if not step.is_ended and not step.joins:
            wanted.setdefault(step.queue, {}).setdefault(step.name, step)
    found = []
    for queue, by_name in list(wanted.items())[:QUEUES_EXAMINED]:
        names = list(by_name)[:NAMES_EXAMINED]
        unknown = await page.service.unknown_among(queue, names)
        found += [UnknownTask(by_name[name.name], name.sentence) for name in unknown]
    return found


async def _explain(page: PageContext[Any], steps: Sequence[FlowStep]) -> list[Pending]:
    """Explain the first step of each task. Steps of the same task in the same queue wait for the same reasons."""
    tasks: dict[tuple[str, str, State | None], list[FlowStep]] = {}
    for step in steps:
        tasks.setdefault((step.queue, step.name, step.state), []).append(step)
    explained = []
    for first, *alike in list(tasks.values())[:EXPLAINED]:
        try:
            explanation = await page.service.explain_within(first.job_id, page.principal.queues)
        except Refusal:  # it has ended since
            continue
        reasons = explanation.reasons
        explained.append(Pending(first, len(alike), reasons[0].sentence if reasons else explanation.summary))
    return explained
