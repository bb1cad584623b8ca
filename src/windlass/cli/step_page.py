"""Stored steps, waits and unread signals of a job, for `jobs steps`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from windlass.core.durable import DurableState, Step, StepStatus, UnreadSignal
from windlass.core.job import Blob, Job
from windlass.service import Service

from .blobs import blob_text
from .output import (
    Column,
    DurationCell,
    InstantCell,
    format_brief,
    format_count,
    print_heading,
    print_table,
    print_text,
    print_title,
)
from .records import to_record

STEP_COLUMNS = (
    Column("step", shrinks=12),
    Column("kind", rank=2),
    Column("status"),
    Column("tries", is_right=True, rank=4),
    Column("took", is_right=True, rank=3),
    Column("ended", rank=2),
    Column("until", rank=1),
    Column("value", shrinks=16),
)
SIGNAL_COLUMNS = (Column("signal", shrinks=12), Column("received", rank=1), Column("value", shrinks=16))


class StepDetails(NamedTuple):
    job: Job
    state: DurableState


def read(service: Service, job_id: bytes) -> StepDetails:
    job = service.job([job_id]).one().wait().job
    return StepDetails(job, service.durable_states([job_id]).one().wait())


def as_record(details: StepDetails) -> dict[str, Any]:
    found: dict[str, Any] = to_record(details.state)
    return {"id": details.job.key, "state": details.job.state.label} | found


def show(details: StepDetails) -> None:
    job, state = details
    print_title(job.key, job.state.label, job.name)
    if state.suspended_at_ms is not None:
        waits = ", ".join(state.waits)
        print_text(f"Suspended for {format_brief(max(0, state.now_ms - state.suspended_at_ms))}: {waits}.")
    show_steps(state)
    if state.steps or state.signals:
        print_text(f"{format_count(state.suspensions, 'suspension')}, {state.bytes:,} bytes")


def show_steps(state: DurableState) -> None:
    """Print the steps and the unread signals."""
    if not state.steps and not state.signals:
        print_text("No steps.")
    if state.steps:
        print_table(STEP_COLUMNS, [_step_row(step, state.now_ms) for step in state.steps], empty="")
    if state.signals:
        print_heading("Unread signals")
        print_table(SIGNAL_COLUMNS, [_signal_row(signal, state.now_ms) for signal in state.signals], empty="")


def _signal_row(signal: UnreadSignal, now_ms: int) -> tuple[object, ...]:
    return signal.name, InstantCell(signal.at_ms, now_ms), _line(signal.value)


def _step_row(step: Step, now_ms: int) -> tuple[object, ...]:
    is_open = step.status is StepStatus.WAITING
    took_ms = None if step.ended_at_ms is None else max(0, step.ended_at_ms - step.begun_at_ms)
    return (
        step.name,
        step.kind.label,
        step.status.label.replace("_", " "),
        step.tries or "",
        DurationCell(took_ms),
        InstantCell(step.ended_at_ms, now_ms),
        InstantCell(step.wake_at_ms if is_open else None, now_ms),
        "; ".join(_details(step, is_open)),
    )


def _details(step: Step, is_open: bool) -> Iterator[str]:
    if is_open and step.signal:
        yield f"waits for signal {step.signal}"
    if is_open and step.children:
        yield f"waits for {format_count(len(step.children), 'child job')}"
    if step.value is not None and step.schema is None:
        yield _line(step.value)


def _line(blob: Blob) -> str:
    return " ".join(blob_text(blob).split())
