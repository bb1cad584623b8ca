"""Steps of a flow as rows of a table. In a large flow, equal steps are folded into one row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from windlass.core.flow import Flow, FlowStep
from windlass.core.flow.graph import layers_of
from windlass.core.ids import format_id
from windlass.core.states import State

from .output import ID, Column, DurationCell

FOLDED_FROM = 40  # steps; a smaller flow fits a screen
SHOWN_EACH = 10  # steps that run or failed, of equal name
AFTER_SHOWN = 3
NOT_RUN = "not run"  # state of a consequence
_MARKS = {
    "finished": "✓", "failed": "✗", "cancelled": "⊘", "deleted": "⊘", NOT_RUN: "·", "running": "▶", "dispatched": "▶",
}  # fmt: skip
_WAITING_MARK = "○"
COLUMNS = (
    ID,
    Column("step", shrinks=14),
    Column("state"),
    Column("because of", rank=1, shrinks=10),
    Column("after", rank=2, shrinks=10),
    Column("took", is_right=True, rank=3),
    Column("queue", rank=4, shrinks=8),
)


class StepRow(NamedTuple):
    """Row of a step, or of several equal steps; then it has no id."""

    id: str
    step: str
    state: str
    because: str
    after: str
    took: DurationCell
    queue: str


class _Kind(NamedTuple):
    """Properties that folded steps have in common."""

    name: str
    state: str
    because: str
    queue: str


def status_of(step: FlowStep) -> str:
    """Return the state of a step in words. A consequence has not run."""
    if step.is_consequence:
        return NOT_RUN
    return "deleted" if step.state is None else step.state.label


def rows_of(flow: Flow, cause_of: Mapping[bytes, FlowStep], *, is_all: bool) -> list[StepRow]:
    """Return the rows, layer by layer."""
    labels = {step.job_id: step.label for step in flow.steps}
    layers = layers_of(flow.steps)
    ordered = sorted(flow.steps, key=lambda step: layers[step.job_id])
    if is_all or len(ordered) < FOLDED_FROM:
        return [_row(step, cause_of, labels, flow.now_ms) for step in ordered]
    rows: list[StepRow] = []
    for kind, steps in _joined(_grouped(ordered, layers, cause_of)):
        shown = steps if len(steps) == 1 else steps[:SHOWN_EACH] if _is_interesting(steps[0]) else []
        rows += [_row(step, cause_of, labels, flow.now_ms) for step in shown]
        if len(shown) < len(steps):
            rows.append(_folded(kind, steps[len(shown) :], labels, is_rest=bool(shown)))
    return rows


def _is_interesting(step: FlowStep) -> bool:
    return step.is_cause or step.state in (State.RUNNING, State.DISPATCHED)


def _grouped(
    ordered: Sequence[FlowStep], layers: Mapping[bytes, int], cause_of: Mapping[bytes, FlowStep]
) -> Iterator[tuple[_Kind, list[FlowStep]]]:
    """Group the steps of each layer by kind, in the order of the first step of a kind."""
    groups: dict[tuple[int, _Kind], list[FlowStep]] = {}
    for step in ordered:
        kind = _Kind(step.name, status_of(step), _because(step, cause_of), step.queue)
        groups.setdefault((layers[step.job_id], kind), []).append(step)
    yield from ((kind, steps) for (_, kind), steps in groups.items())


def _joined(groups: Iterator[tuple[_Kind, list[FlowStep]]]) -> list[tuple[_Kind, list[FlowStep]]]:
    """Join groups of equal kind in successive layers, as in a long chain of equal tasks."""
    joined: list[tuple[_Kind, list[FlowStep]]] = []
    for kind, steps in groups:
        if joined and joined[-1][0] == kind:
            joined[-1][1].extend(steps)
        else:
            joined.append((kind, list(steps)))
    return joined


def _row(step: FlowStep, cause_of: Mapping[bytes, FlowStep], labels: Mapping[bytes, str], now_ms: int) -> StepRow:
    state = status_of(step)
    return StepRow(
        id=format_id(step.job_id),
        step=f"{_MARKS.get(state, _WAITING_MARK)} {step.label}",
        state=state,
        because=_because(step, cause_of),
        after=_after([step], labels),
        took=DurationCell(_took_ms(step, now_ms)),
        queue=step.queue,
    )


def _folded(kind: _Kind, steps: Sequence[FlowStep], labels: Mapping[bytes, str], *, is_rest: bool) -> StepRow:
    mark = _MARKS.get(kind.state, _WAITING_MARK)
    more = " more" if is_rest else ""
    return StepRow(
        id="",
        step=f"{mark} {len(steps):,}{more} × {kind.name}",
        state=kind.state,
        because=kind.because,
        after=_after(steps, labels),
        took=DurationCell(None),
        queue=kind.queue,
    )


def _because(step: FlowStep, cause_of: Mapping[bytes, FlowStep]) -> str:
    cause = cause_of.get(step.job_id)
    return "" if cause is None else f"{cause.label} {status_of(cause)}"


def _after(steps: Sequence[FlowStep], labels: Mapping[bytes, str]) -> str:
    """Name the steps that these steps wait for."""
    counts: dict[str, int] = {}
    for job_id in dict.fromkeys(job_id for step in steps for job_id in step.after):
        label = labels.get(job_id, format_id(job_id))
        counts[label] = counts.get(label, 0) + 1
    names = [label if count == 1 else f"{count:,} × {label}" for label, count in counts.items()]
    more = f" and {len(names) - AFTER_SHOWN:,} more" if len(names) > AFTER_SHOWN else ""
    return ", ".join(names[:AFTER_SHOWN]) + more


def _took_ms(step: FlowStep, now_ms: int) -> int | None:
    if step.started_at_ms is None or step.joins:
        return None
    if step.ended_at_ms is not None:
        return max(0, step.ended_at_ms - step.started_at_ms)
    return max(0, now_ms - step.started_at_ms) if step.state in (State.RUNNING, State.DISPATCHED) else None
