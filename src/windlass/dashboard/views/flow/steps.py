"""Look of a flow's steps: kind, icon, words, importance, duration."""

from __future__ import annotations

from windlass.core.flow import FlowStep
from windlass.core.states import State

CONSEQUENCE, DELETED = "consequence", "deleted"
# The most important kinds first: those that a fold leaves out last.
_KINDS = (
    "failed", "running", "dispatched", "cancelled", "queued", "scheduled", "suspended", DELETED, "waiting", CONSEQUENCE,
    "finished",
)  # fmt: skip
IMPORTANCE = {kind: at for at, kind in enumerate(_KINDS)}
_ICONS = {DELETED: "gone"}
_WORDS = {CONSEQUENCE: "not run"}


def kind_of(step: FlowStep) -> str:
    """Return the label of the state, `consequence` or `deleted`. It is a class of the stylesheet."""
    if step.state is None:
        return DELETED
    return CONSEQUENCE if step.is_consequence else step.state.label


def icon_of(kind: str) -> str:
    return _ICONS.get(kind, kind)


def word_of(kind: str) -> str:
    return _WORDS.get(kind, kind)


def ran_ms(step: FlowStep, now_ms: int) -> int | None:
    """Return the duration of the last attempt, so far or until its end. None: it has not started."""
    if step.started_at_ms is None or (step.ended_at_ms is None and not _is_leased(step)):
        return None
    return max(0, (step.ended_at_ms or now_ms) - step.started_at_ms)


def _is_leased(step: FlowStep) -> bool:
    return step.state is not None and step.state.is_leased


def what_happened(cause: FlowStep) -> str:
    if cause.state is None:
        return "was deleted"
    return "failed" if cause.state is State.FAILED else "was cancelled"
