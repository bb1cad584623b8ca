"""Details of one flow, for `flows show`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from windlass.core.flow import Flow, FlowStep, FlowSummary
from windlass.core.flow.graph import find_causes
from windlass.core.ids import format_id
from windlass.core.text import humanize
from windlass.service import Service
from windlass.wire.flows import flow_shape

from .flow_rows import COLUMNS, NOT_RUN, rows_of, status_of
from .job_selection import with_errors
from .output import (
    format_brief,
    format_count,
    print_block,
    print_fields,
    print_heading,
    print_note,
    print_table,
    print_text,
    print_title,
)

CAUSES_SHOWN = 10
LATER_SHOWN = 5  # steps named after a cause
_ORDER = (
    "finished",
    "failed",
    "cancelled",
    "deleted",
    NOT_RUN,
    "running",
    "dispatched",
    "queued",
    "scheduled",
    "suspended",
    "waiting",
)


class FlowDetails(NamedTuple):
    flow: Flow
    causes: list[FlowStep]  # steps that failed, were cancelled or were deleted by themselves
    errors: dict[bytes, str]  # of the shown causes
    cause_of: dict[bytes, FlowStep]


def read(service: Service, flow_id: bytes, *, all_causes: bool = False) -> FlowDetails:
    flow = service.flow(flow_id).wait()
    causes = [step for step in flow.steps if step.is_cause or step.state is None]
    kept = [step.job_id for step in causes if step.is_kept]
    found = with_errors(service, kept if all_causes else kept[:CAUSES_SHOWN])
    errors = {job.id: error for job, error in found}
    return FlowDetails(flow, causes, errors, find_causes(flow.steps))


def as_record(details: FlowDetails) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(flow_shape(details.flow))
    return found | {"errors": {format_id(job_id): error for job_id, error in details.errors.items()}}


def show(details: FlowDetails, *, is_all: bool) -> None:
    summary = details.flow.summary
    print_title(summary.key, summary.state, summary.name)
    print_text(describe(summary))
    print_heading("About")
    print_fields(_about(details.flow))
    _show_causes(details, is_all=is_all)
    print_heading("Steps")
    rows = rows_of(details.flow, details.cause_of, is_all=is_all)
    print_table(COLUMNS, rows, empty="")
    if any(not row.id for row in rows):
        print_note("Equal steps are folded: --all shows each of them.")
    print_heading("Next")
    print_block("\n".join(_next_commands(details)))


def describe(flow: FlowSummary) -> str:
    """Describe the state of a flow in a sentence."""
    if flow.state == "finished":
        return "Its only step finished." if flow.total == 1 else f"All {flow.total:,} steps finished."
    problems = _describe_problems(flow)
    if flow.state != "running":
        return f"Of {format_count(flow.total, 'step')}, {problems}."
    if flow.total == 1:
        return "Its only step has not ended."
    ended = f"{flow.ended:,} of {flow.total:,} steps {'has' if flow.ended == 1 else 'have'} ended"
    return f"{ended}: {problems}." if problems else f"{ended}."


def _describe_problems(flow: FlowSummary) -> str:
    ends = [f"{flow.failed:,} failed"] if flow.failed else []
    for count, word in ((flow.cancelled, "cancelled"), (flow.deleted, "deleted")):
        ends += [f"{count:,} {'was' if count == 1 else 'were'} {word}"] if count else []
    later = f"{format_count(flow.consequences, 'later step')} did not run because of that" if flow.consequences else ""
    return "; ".join(filter(None, (" and ".join(ends), later)))


def _about(flow: Flow) -> Iterator[tuple[str, object]]:
    summary = flow.summary
    ended = summary.ended_at_ms
    yield "created", humanize.humanize_instant(summary.created_at_ms, flow.now_ms)
    yield "ended", humanize.humanize_instant(ended, flow.now_ms) if ended else ""
    took = format_brief(max(0, (ended or flow.now_ms) - summary.created_at_ms))
    yield "took" if ended else "runs for", took
    counts = Counter(status_of(step) for step in flow.steps)
    yield "steps", f"{summary.total:,}: " + ", ".join(f"{counts[state]:,} {state}" for state in _ORDER if counts[state])
    yield "queues", ", ".join(summary.queues)


def _show_causes(details: FlowDetails, *, is_all: bool) -> None:
    if not details.causes:
        return
    print_heading("Cause" if len(details.causes) == 1 else "Causes")
    shown = details.causes if is_all else details.causes[:CAUSES_SHOWN]
    later = _later_by_cause(details)
    for step in shown:
        print_block("\n".join(_cause_lines(step, details.errors, later.get(step.job_id, []))))
    if len(shown) < len(details.causes):
        print_note(f"… and {len(details.causes) - len(shown):,} more: --all shows them.")


def _later_by_cause(details: FlowDetails) -> dict[bytes, list[FlowStep]]:
    later: dict[bytes, list[FlowStep]] = {}
    for step in details.flow.steps:
        cause = details.cause_of.get(step.job_id)
        if cause is not None:
            later.setdefault(cause.job_id, []).append(step)
    return later


def _cause_lines(step: FlowStep, errors: Mapping[bytes, str], later: list[FlowStep]) -> Iterator[str]:
    attempts = f" after {format_count(step.attempt, 'attempt')}" if step.attempt > 1 else ""
    error = errors.get(step.job_id, "").replace("\n", " ")
    state = status_of(step)
    yield f"{step.label} {state}{attempts}{f': {error}' if error not in ('', state) else ''}"
    yield f"  job {format_id(step.job_id)}{'' if step.is_kept else ' (its record is gone)'}"
    if later:
        names = list(dict.fromkeys(item.label for item in later))
        more = f" and {len(names) - LATER_SHOWN:,} more" if len(names) > LATER_SHOWN else ""
        steps = format_count(len(later), "later step")
        yield f"  {steps} did not run because of it: {', '.join(names[:LATER_SHOWN])}{more}"


def _next_commands(details: FlowDetails) -> Iterator[str]:
    flow, causes = details.flow.summary, [step for step in details.causes if step.is_kept]
    commands: list[tuple[str, str]] = []
    if causes:
        what = "retry the step above" if len(causes) == 1 else f"retry the {len(causes):,} steps above"
        commands.append((f"windlass flows resume {flow.key}", f"{what}; finished steps do not run again"))
        commands.append((f"windlass jobs show {format_id(causes[0].job_id)}", "show the whole error"))
    if flow.state == "running":
        commands.append((f"windlass flows cancel {flow.key}", "cancel the steps that have not ended"))
    if flow.state != "running" and all(step.is_kept for step in details.flow.steps):
        commands.append((f"windlass flows rerun {flow.key}", "run all steps again, as a new flow"))
    if not commands:
        yield "Nothing to do: the flow has ended, and not all of its jobs are kept, so it cannot run again."
    width = max((len(command) for command, _ in commands), default=0)
    yield from (f"{command:<{width}}  {what}" for command, what in commands)
