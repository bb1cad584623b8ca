"""Shapes of flows: summaries, flows with their steps, pages, and answers to actions on a flow."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from windlass.core.flow import Flow, FlowState, FlowStep, FlowSummary, ResumedFlow
from windlass.core.flow.graph import find_causes
from windlass.core.ids import format_id
from windlass.core.job import OnFailure
from windlass.core.validation.bounds import NAME_MAX
from windlass.core.validation.flows import ALIAS_MAX

from .fields import Cursor, FlowId, Id, PageSize, StateName
from .shape import RequestShape, ResponseShape


class FlowsQuery(RequestShape, frozen=True, kw_only=True):
    state: Annotated[FlowState | Literal[""], Meta(description="Empty: flows of all states.")] = ""
    name: Annotated[str, Meta(max_length=NAME_MAX, description="A pattern: * and ?.")] = ""
    alias: Annotated[
        str, Meta(max_length=ALIAS_MAX, description="The beginning or end of a flow's id, at least 4 hex digits.")
    ] = ""
    limit: PageSize = 50
    cursor: Cursor = ""


class FlowSummaryShape(ResponseShape, frozen=True, kw_only=True):
    """A flow without its steps. The counts are numbers of steps."""

    id: FlowId
    name: str
    state: FlowState
    queues: tuple[str, ...]
    created_at_ms: int
    ended_at_ms: Annotated[int | None, Meta(description="When the last step ended; null: the flow runs.")]
    total: int
    finished: int
    failed: Annotated[int, Meta(description="Steps that failed by themselves.")]
    cancelled: Annotated[int, Meta(description="Steps that were cancelled by themselves.")]
    consequences: Annotated[int, Meta(description="Steps that ended because a step before them failed.")]
    deleted: int


_COPIED_FIELDS = tuple(name for name in FlowSummaryShape.__struct_fields__ if name != "id")


def flow_summary_shape(flow: FlowSummary) -> FlowSummaryShape:
    return FlowSummaryShape(id=flow.key, **{name: getattr(flow, name) for name in _COPIED_FIELDS})


class FlowsShape(ResponseShape, frozen=True, kw_only=True):
    """A page of flows, the newest first. `cursor` is empty on the last page. Other pages may hold fewer flows than
    requested, even none."""

    flows: list[FlowSummaryShape]
    cursor: str


class FlowStepShape(ResponseShape, frozen=True, kw_only=True):
    """A job of a flow. It stays in the flow after its record is gone."""

    job_id: Id
    step: Annotated[str, Meta(description="Name of the job in the flow; may be empty.")]
    queue: str
    name: str
    after: Annotated[tuple[Id, ...], Meta(description="Jobs of the flow that it waits for.")]
    on_failure: OnFailure
    joins: Annotated[bool, Meta(description="It has no work: it stands for the jobs that it waits for.")]
    state: Annotated[StateName | None, Meta(description="null: it was deleted before it ended.")]
    is_consequence: Annotated[bool, Meta(description="It ended because a step before it failed or was cancelled.")]
    cause: Annotated[Id | None, Meta(description="The first step that failed or was cancelled by itself.")]
    is_kept: Annotated[bool, Meta(description="GET /jobs/{id} can read the job.")]
    attempt: int
    progress: float
    created_at_ms: int
    started_at_ms: int | None
    ended_at_ms: int | None


_STEP_FIELDS = tuple(name for name in FlowStep.__struct_fields__ if name not in ("job_id", "after", "state"))


def _step_shape(step: FlowStep, cause: FlowStep | None) -> FlowStepShape:
    return FlowStepShape(
        job_id=format_id(step.job_id),
        after=tuple(map(format_id, step.after)),
        state=None if step.state is None else step.state.label,  # type: ignore[arg-type]
        cause=None if cause is None else format_id(cause.job_id),
        **{name: getattr(step, name) for name in _STEP_FIELDS},
    )


class FlowShape(ResponseShape, frozen=True, kw_only=True):
    """A flow with its steps. Each step comes after the steps that it waits for."""

    summary: FlowSummaryShape
    steps: list[FlowStepShape]
    now_ms: Annotated[int, Meta(description="Time of the engine when the flow was read.")]


def flow_shape(flow: Flow) -> FlowShape:
    causes = find_causes(flow.steps)
    steps = [_step_shape(step, causes.get(step.job_id)) for step in flow.steps]
    return FlowShape(summary=flow_summary_shape(flow.summary), steps=steps, now_ms=flow.now_ms)


class ResumedFlowShape(ResponseShape, frozen=True, kw_only=True):
    """The steps that were retried. Steps that ended because of them wait again."""

    retried: list[Id]
    refused: Annotated[dict[str, str], Meta(description="Reasons of the steps that could not be retried, by job id.")]


def resumed_flow_shape(answer: ResumedFlow) -> ResumedFlowShape:
    return ResumedFlowShape(
        retried=[format_id(job_id) for job_id in answer.retried],
        refused={format_id(job_id): reason for job_id, reason in answer.refused.items()},
    )


class RerunFlowShape(ResponseShape, frozen=True, kw_only=True):
    """The new flow."""

    id: FlowId
