"""Routes of pending callbacks and of callbacks that were given up."""

from __future__ import annotations

from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import ADMINS, JOB_READERS, READERS, Routes
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


@routes.get("/callbacks", roles=READERS, query=PendingCallbacksQuery, response=PendingCallbacksShape)
async def callbacks(context: RequestContext[None, PendingCallbacksQuery]) -> PendingCallbacksShape:
    """List pending callbacks, the next due first; or callbacks that were given up, the oldest first."""
    context.check_all_queues()
    query = context.query
    page = await context.service.callbacks(given_up=query.given_up, most=query.most, cursor=query.cursor)
    return PendingCallbacksShape(
        callbacks=[pending_callback_shape(callback, context.response_encoding) for callback in page.callbacks],
        cursor=page.cursor,
    )


@routes.get("/jobs/{id}/callbacks", roles=JOB_READERS, response=JobCallbacksShape)
async def job_callbacks(context: RequestContext[None, None]) -> JobCallbacksShape:
    """List the pending callbacks of a job, and those that were given up. They may outlive the job."""
    job_id = context.job_id
    await context.check_jobs([job_id])
    found = await context.service.job_callbacks(job_id)
    for callback in found.callbacks:  # the job itself may be deleted
        context.check_found(callback.job.queue)
    return JobCallbacksShape(
        callbacks=[pending_callback_shape(callback, context.response_encoding) for callback in found.callbacks],
        is_all=found.is_all,
    )


@routes.post(
    "/callbacks:redeliver",
    roles=ADMINS,
    body=Items[CallbackItemShape],
    response=Results[RedeliveredShape],
    is_audited=True,
)
async def redeliver(context: RequestContext[Items[CallbackItemShape], None]) -> Results[RedeliveredShape]:
    """Deliver callbacks again that were given up, at once and with all attempts.

    Ids are those of GET /callbacks, or ids of jobs."""
    context.check_all_queues()
    ids = [parse_callback_or_job_id(item.id) for item in context.body.items]
    context.audit_target, context.audit_detail = "", f"{len(ids)} callbacks"
    return to_results(await context.service.redeliver(ids), lambda status: RedeliveredShape(status=status))
