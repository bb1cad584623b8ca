"""Flows: jobs that were enqueued together and depend on each other, with the graph of their dependencies.

A flow is kept as long as a record of one of its jobs, and for a while after its last one.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from windlass.core.ids import format_id
from windlass.core.job import OnFailure
from windlass.core.states import State

FlowState: TypeAlias = Literal["running", "finished", "failed", "cancelled"]
FLOW_STATES: tuple[FlowState, ...] = ("running", "finished", "failed", "cancelled")


class FlowStep(msgspec.Struct, frozen=True, kw_only=True):
    """A job of a flow. It stays in the flow after its record is gone."""

    job_id: bytes
    step: str  # its name in the flow; empty: none
    queue: str
    name: str  # of the job: the task
    after: tuple[bytes, ...]  # jobs of the flow that it waits for
    on_failure: OnFailure
    joins: bool  # no work: it stands for the jobs that it waits for
    state: State | None  # None: deleted before it ended
    is_consequence: bool  # it ended because a step before it failed or was cancelled
    is_kept: bool  # its record exists
    attempt: int
    progress: float  # 0..1
    created_at_ms: int
    started_at_ms: int | None
    ended_at_ms: int | None

    @property
    def label(self) -> str:
        return self.step or self.name

    @property
    def is_ended(self) -> bool:
        return self.state is None or self.state.is_ended

    @property
    def is_cause(self) -> bool:
        """It failed or was cancelled by itself, so that a resume starts with it."""
        return self.state in (State.FAILED, State.CANCELLED) and not self.is_consequence


class FlowSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A flow in a list. Counts are numbers of steps."""

    id: bytes
    name: str
    queues: tuple[str, ...]
    created_at_ms: int
    ended_at_ms: int | None  # when its last step ended; None: it runs
    total: int
    finished: int = 0
    failed: int = 0  # without consequences
    cancelled: int = 0  # without consequences
    consequences: int = 0  # steps that ended because of another step
    deleted: int = 0

    @property
    def key(self) -> str:
        """Text form of the id."""
        return format_id(self.id)

    @property
    def ended(self) -> int:
        return self.finished + self.failed + self.cancelled + self.consequences + self.deleted

    @property
    def state(self) -> FlowState:
        if self.ended < self.total:
            return "running"
        if self.failed:
            return "failed"
        return "cancelled" if self.cancelled or self.consequences or self.deleted else "finished"


class Flow(msgspec.Struct, frozen=True):
    """A flow with its steps, each after the steps that it waits for."""

    summary: FlowSummary
    steps: list[FlowStep]
    now_ms: int  # of the engine, when it was read


class FlowPage(msgspec.Struct, frozen=True):
    """Flows, newest first."""

    flows: list[FlowSummary]
    cursor: str  # of the next page; empty: this is the last one


class ResumedFlow(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to a resume: steps that were queued again, and steps that could not be, with the reason."""

    retried: list[bytes]
    refused: dict[bytes, str]
