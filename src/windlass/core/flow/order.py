"""Order of the steps of a flow."""

from __future__ import annotations

from collections.abc import Sequence

from .flow import FlowStep


def sort_steps(steps: Sequence[FlowStep]) -> list[FlowStep]:
    """Return the steps so that each comes after the steps that it waits for. Steps that may come in any order keep
    theirs. Steps that wait for each other in a circle, which the engine does not accept, come last."""
    found: list[FlowStep] = []
    done: set[bytes] = set()
    left = list(steps)
    while left:
        later: list[FlowStep] = []
        for step in left:
            if done.issuperset(step.after):
                found.append(step)
                done.add(step.job_id)
            else:
                later.append(step)
        if len(later) == len(left):
            return found + later
        left = later
    return found
