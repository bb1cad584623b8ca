"""Flow operations over HTTP."""

from __future__ import annotations

from typing import Literal

from windlass.core.flow import Flow, FlowPage, FlowState, FlowStep, FlowSummary, ResumedFlow
from windlass.core.ids import format_id, parse_id
from windlass.store.operation import Operation
from windlass.wire.flows import (
    FlowShape,
    FlowsShape,
    FlowStepShape,
    FlowSummaryShape,
    RerunFlowShape,
    ResumedFlowShape,
)
from windlass.wire.job_admin import CancelledShape

from .facet import RemoteFacet
from .request import get, post
from .translation import state_of

_SUMMARY_FIELDS = tuple(name for name in FlowSummary.__struct_fields__ if name != "id")
_STEP_FIELDS = tuple(name for name in FlowStep.__struct_fields__ if name not in ("job_id", "after", "state"))


class RemoteFlowOperations(RemoteFacet):
    def flow(self, flow_id: bytes) -> Operation[Flow]:
        super().flow(flow_id)
        return self._single(get(_path(flow_id), FlowShape), _flow)

    def flows(
        self,
        *,
        state: FlowState | Literal[""] = "",
        name: str = "",
        alias: str = "",
        most: int = 50,
        cursor: str = "",
        queues: tuple[str, ...] = (),
    ) -> Operation[FlowPage]:
        """Return a page of flows. The server adds the queues of the token; narrower `queues` are for the server."""
        super().flows(state=state, name=name, alias=alias, most=most, cursor=cursor, queues=queues)
        query = {"state": state or None, "name": name or None, "alias": alias or None, "limit": most}
        query["cursor"] = cursor or None
        return self._single(
            get("/flows", FlowsShape, query=query),
            lambda page: FlowPage([_summary(shape) for shape in page.flows], page.cursor),
        )

    def resume_flow(self, flow_id: bytes) -> Operation[ResumedFlow]:
        super().resume_flow(flow_id)
        return self._single(post(f"{_path(flow_id)}/resume", ResumedFlowShape), _resumed)

    def cancel_flow(self, flow_id: bytes) -> Operation[str]:
        super().cancel_flow(flow_id)
        return self._single(post(f"{_path(flow_id)}/cancel", CancelledShape), lambda reply: reply.outcome)

    def rerun_flow(self, flow_id: bytes) -> Operation[bytes]:
        super().rerun_flow(flow_id)
        request = post(f"{_path(flow_id)}/rerun", RerunFlowShape, is_repeatable=False)
        return self._single(request, lambda reply: parse_id(reply.id))


def _path(flow_id: bytes) -> str:
    return f"/flows/{format_id(flow_id)}"


def _summary(shape: FlowSummaryShape) -> FlowSummary:
    return FlowSummary(id=parse_id(shape.id), **{name: getattr(shape, name) for name in _SUMMARY_FIELDS})


def _step(shape: FlowStepShape) -> FlowStep:
    return FlowStep(
        job_id=parse_id(shape.job_id),
        after=tuple(map(parse_id, shape.after)),
        state=None if shape.state is None else state_of(shape.state),
        **{name: getattr(shape, name) for name in _STEP_FIELDS},
    )


def _flow(shape: FlowShape) -> Flow:
    return Flow(_summary(shape.summary), [_step(step) for step in shape.steps], shape.now_ms)


def _resumed(shape: ResumedFlowShape) -> ResumedFlow:
    return ResumedFlow(
        retried=list(map(parse_id, shape.retried)),
        refused={parse_id(job_id): reason for job_id, reason in shape.refused.items()},
    )
