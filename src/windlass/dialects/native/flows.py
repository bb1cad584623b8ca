"""Routes of flows: list and read them, resume, cancel and run again."""

from __future__ import annotations

from typing import Any

from windlass.core import errors
from windlass.core.flow import Flow
from windlass.core.ids import format_id, parse_id
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import ADMINS, JOB_CONTROLLERS, JOB_READERS, PRODUCERS, READERS, Answer, Routes
from windlass.wire.flows import (
    FlowShape,
    FlowsQuery,
    FlowsShape,
    RerunFlowShape,
    ResumedFlowShape,
    flow_shape,
    flow_summary_shape,
    resumed_flow_shape,
)
from windlass.wire.job_admin import CancelledShape

routes = Routes("/api/v1", tag="Flows")


@routes.get("/flows", roles=READERS, query=FlowsQuery, response=FlowsShape, refuses=(errors.TooLarge,))
async def flows(context: RequestContext[None, FlowsQuery]) -> FlowsShape:
    """List flows, the newest first, by page.

    A flow stays in the list as long as one of its jobs is kept, and for at least a day. A token limited to some queues
    sees the flows that have all their jobs in these queues."""
    query = context.query
    page = await context.service.flows(
        state=query.state,
        name=query.name,
        alias=query.alias,
        most=query.limit,
        cursor=query.cursor,
        queues=context.principal.queues,
    )
    return FlowsShape(flows=[flow_summary_shape(flow) for flow in page.flows], cursor=page.cursor)


@routes.get("/flows/{id}", roles=JOB_READERS, response=FlowShape, refuses=(errors.UnknownFlow,))
async def flow(context: RequestContext[None, None]) -> FlowShape:
    """Read a flow with its steps.

    Steps have no payloads and results: read these by the id of the job. The token needs all queues of the flow."""
    found = await context.service.flow(_flow_id(context))
    _check_queues(context, found)
    return flow_shape(found)


@routes.post(
    "/flows/{id}/resume", roles=ADMINS, response=ResumedFlowShape, is_audited=True,
    refuses=(errors.UnknownFlow, errors.Unsettled),
)  # fmt: skip
async def resume_flow(context: RequestContext[None, None]) -> ResumedFlowShape:
    """Resume a flow: retry the steps that failed or were cancelled.

    Steps that ended only because of them go back to waiting, with their arguments to come. Steps that have finished do
    not run again."""
    flow_id = await _checked_id(context)
    context.audit_target = format_id(flow_id)
    return resumed_flow_shape(await context.service.resume_flow(flow_id))


@routes.post(
    "/flows/{id}/cancel", roles=JOB_CONTROLLERS, response=CancelledShape,
    refuses=(errors.UnknownFlow, errors.AlreadyEnded),
)  # fmt: skip
async def cancel_flow(context: RequestContext[None, None]) -> CancelledShape:
    """Cancel all steps of a flow that have not ended.

    `cancelled`: all have ended now. `requested`: some run; their workers are asked to stop them."""
    flow_id = await _checked_id(context)
    return CancelledShape(outcome=await context.service.cancel_flow(flow_id))  # type: ignore[arg-type]


@routes.post(
    "/flows/{id}/rerun", roles=PRODUCERS, response=RerunFlowShape, status=201,
    refuses=(
        errors.UnknownFlow, errors.FlowIncomplete, errors.QueueFull, errors.EngineFull, errors.TooLarge,
        errors.LimitsChanged,
    ),
)  # fmt: skip
async def rerun_flow(context: RequestContext[None, None]) -> Answer:
    """Run a flow again: enqueue a copy of all its jobs, with new ids.

    The records of all jobs must still be kept; else the request is refused with `flow_incomplete`. The flow itself does
    not change."""
    flow_id = await _checked_id(context)
    new_id = format_id(await context.service.rerun_flow(flow_id))
    return Answer(RerunFlowShape(id=new_id), 201, (("Location", f"/api/v1/flows/{new_id}"),))


def _flow_id(context: RequestContext[Any, Any]) -> bytes:
    return parse_id(context.path["id"])


async def _checked_id(context: RequestContext[Any, Any]) -> bytes:
    """Return the id of the flow, after the check of its queues. A flow never gets further queues, so the check stays
    valid. It costs a read, and only for tokens limited to some queues."""
    flow_id = _flow_id(context)
    if context.principal.queues:
        _check_queues(context, await context.service.flow(flow_id))
    return flow_id


def _check_queues(context: RequestContext[Any, Any], flow: Flow) -> None:
    for queue in flow.summary.queues:
        context.check_found(queue, "this flow")
