"""Structure of a flow: the layer of each step, and the step that caused the end of another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from windlass.core.states import State

from .flow import FlowStep


def layers_of(steps: Sequence[FlowStep]) -> dict[bytes, int]:
    """Return the layer of each step: 0 for steps that wait for none, else one more than the last step they wait for.
    The steps are in the order of `Flow.steps`."""
    layers: dict[bytes, int] = {}
    for step in steps:
        layers[step.job_id] = max((layers.get(job_id, 0) + 1 for job_id in step.after), default=0)
    return layers


def find_causes(steps: Sequence[FlowStep]) -> dict[bytes, FlowStep]:
    """Return the first cause of each consequence: a step that failed, was cancelled or was deleted by itself.

    A consequence may have several causes. The one that ended first is returned, as it ended the others."""
    known = {step.job_id: step for step in steps}
    causes: dict[bytes, FlowStep] = {}
    for step in steps:
        if step.is_consequence:
            found = [cause for job_id in step.after if (cause := _cause_in(job_id, known, causes)) is not None]
            if found:
                causes[step.job_id] = min(found, key=lambda cause: (_differs(cause, step), cause.ended_at_ms or 0))
    return causes


def _cause_in(job_id: bytes, known: Mapping[bytes, FlowStep], causes: Mapping[bytes, FlowStep]) -> FlowStep | None:
    step = known.get(job_id)
    if step is None or step.is_consequence:
        return causes.get(job_id)
    return step if step.is_cause or step.state is None else None


def _differs(cause: FlowStep, consequence: FlowStep) -> bool:
    """Report whether a cause cannot have ended a consequence: a failure fails, a cancel or a deletion cancels."""
    return (cause.state is State.FAILED) != (consequence.state is State.FAILED)
