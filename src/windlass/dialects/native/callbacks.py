"""Callbacks that are owed, or were given up: people look, and send them on their way again."""

from __future__ import annotations

from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import ADMIN, KNOWS, READS, Routes
from windlass.wire.callbacks import (
    CallbackItemShape,
    JobCallbacksShape,
    PendingCallbacksQuery,
    PendingCallbacksShape,
    RedeliveredShape,
    parse_callback_or_job_id,
    pending_callback_shape,
)
from windlass.wire.shape import Items, Results, to_results

routes = Routes("/api/v1", tag="Callbacks")


@routes.get("/callbacks", roles=READS, query=PendingCallbacksQuery, response=PendingCallbacksShape)
async def callbacks(context: RequestContext[None, PendingCallbacksQuery]) -> PendingCallbacksShape:
    """Callbacks that are owed, the next due first; or those that were given up, the oldest first."""
    context.check_all_queues()
    query = context.query
    page = await context.service.callbacks(given_up=query.given_up, most=query.most, cursor=query.cursor)
    return PendingCallbacksShape(
        callbacks=[pending_callback_shape(one, context.response_encoding) for one in page.callbacks], cursor=page.cursor
    )


@routes.get("/jobs/{id}/callbacks", roles=KNOWS, response=JobCallbacksShape)
async def job_callbacks(context: RequestContext[None, None]) -> JobCallbacksShape:
    """Callbacks of a job that are owed or were given up; they may outlive the job."""
    job_id = context.job_id
    await context.check_jobs([job_id])
    found = await context.service.job_callbacks(job_id)
    for debt in found.callbacks:  # the job itself may have gone
        context.check_found(debt.job.queue)
    return JobCallbacksShape(
        callbacks=[pending_callback_shape(one, context.response_encoding) for one in found.callbacks],
        is_all=found.is_all,
    )


@routes.post(
    "/callbacks:redeliver",
    roles=ADMIN,
    body=Items[CallbackItemShape],
    response=Results[RedeliveredShape],
    is_audited=True,
)
async def redeliver(context: RequestContext[Items[CallbackItemShape], None]) -> Results[RedeliveredShape]:
    """Callbacks that were given up are due at once, with all attempts anew.

    With the ids that GET /callbacks shows, or those of jobs."""
    context.check_all_queues()
    ids = [parse_callback_or_job_id(item.id) for item in context.body.items]
    context.audit_target, context.audit_detail = "", f"{len(ids)} callbacks"
    return to_results(await context.service.redeliver(ids), lambda status: RedeliveredShape(status=status))
