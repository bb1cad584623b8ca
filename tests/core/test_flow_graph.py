"""Layers of the steps of a flow, and the causes of consequences."""

from __future__ import annotations

from windlass.core.flow import FlowStep
from windlass.core.flow.graph import find_causes, layers_of
from windlass.core.states import State

FAILED, CANCELLED, FINISHED = State.FAILED, State.CANCELLED, State.FINISHED


def step(
    name: str, *after: str, state: State | None = FINISHED, is_consequence: bool = False, ended_at_ms: int = 1
) -> FlowStep:
    return FlowStep(
        job_id=name.encode(),
        step=name,
        queue="q",
        name="n",
        after=tuple(other.encode() for other in after),
        on_failure="fail",
        joins=False,
        state=state,
        is_consequence=is_consequence,
        is_kept=True,
        attempt=1,
        progress=0.0,
        created_at_ms=0,
        started_at_ms=None,
        ended_at_ms=ended_at_ms,
    )


def consequence(name: str, *after: str, state: State = FAILED) -> FlowStep:
    return step(name, *after, state=state, is_consequence=True)


def causes(*steps: FlowStep) -> dict[str, str]:
    return {job_id.decode(): cause.step for job_id, cause in find_causes(steps).items()}


def test_layers() -> None:
    steps = [step("a"), step("b", "a"), step("c"), step("d", "b", "c"), step("e", "elsewhere")]
    assert layers_of(steps) == {b"a": 0, b"b": 1, b"c": 0, b"d": 2, b"e": 1}


def test_a_cause_is_found_over_other_consequences() -> None:
    found = causes(step("a", state=FAILED), consequence("b", "a"), consequence("c", "b"))
    assert found == {"b": "a", "c": "a"}


def test_the_first_of_several_causes() -> None:
    late, early = step("late", state=FAILED, ended_at_ms=9), step("early", state=FAILED, ended_at_ms=5)
    assert causes(late, early, step("fine"), consequence("w", "late", "fine", "early")) == {"w": "early"}


def test_a_cause_fits_the_end_of_its_consequence() -> None:
    failed, cancelled = step("failed", state=FAILED, ended_at_ms=9), step("cancelled", state=CANCELLED, ended_at_ms=5)
    assert causes(failed, cancelled, consequence("w", "failed", "cancelled")) == {"w": "failed"}
    assert causes(failed, cancelled, consequence("w", "failed", "cancelled", state=CANCELLED)) == {"w": "cancelled"}


def test_a_deleted_step_cancels() -> None:
    assert causes(step("gone", state=None), consequence("w", "gone", state=CANCELLED)) == {"w": "gone"}


def test_steps_that_ended_by_themselves_have_no_cause() -> None:
    assert causes(step("a", state=FAILED), step("b", "a", state=FAILED), consequence("c", "unknown")) == {}
