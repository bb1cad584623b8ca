"""Route of the atomic enqueue: jobs that are accepted together or not at all."""

from __future__ import annotations

from windlass.core import errors
from windlass.core.errors import Refusal
from windlass.core.job_template import prepare_single
from windlass.core.operations import Enqueued
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import PRODUCERS, Routes
from windlass.wire.enqueue import AcceptedWholeShape, EnqueueQuery, WholeShape, enqueued_shape

from .enqueue import check_caps
from .relations import read_relations

routes = Routes("/api/v1", tag="Producing")


@routes.post(
    "/jobs:whole", roles=PRODUCERS, body=WholeShape, query=EnqueueQuery, response=AcceptedWholeShape,
    refuses=(
        errors.TooLarge, errors.IdConflict, errors.QueueFull, errors.EngineFull, errors.UnknownParent,
        errors.ParentState, errors.UnknownMember, errors.CrossPartition, errors.Unsettled, errors.WrongState,
        errors.BadSetting, errors.FlowExists, errors.UnknownLimit,
    ),
)  # fmt: skip
async def enqueue_whole(context: RequestContext[WholeShape, EnqueueQuery]) -> AcceptedWholeShape:
    """Enqueue up to 2,000 jobs atomically: all are accepted, or none.

    The jobs may wait for each other (`after`, `parent`) by ids that the client generates. All must be in one partition,
    and none may have a unique key. A repeated request with the same ids changes nothing. Jobs with the same `flow.id`
    form a flow; one request enqueues all jobs of a flow."""
    for item in context.body.items:
        context.check_queue(item.queue)
    jobs = [prepare_single(item.new_job(context.body_encoding)) for item in context.body.items]
    check_caps(context, jobs)
    relations = await read_relations(context, jobs)
    if relations is not None:
        relations.check_whole(jobs)
    answers = await context.service.enqueue(jobs, durability=context.query.durability, whole=True)
    return AcceptedWholeShape(jobs=[enqueued_shape(_raise_refusal(answer)) for answer in answers])


def _raise_refusal(answer: Enqueued | Refusal) -> Enqueued:
    if isinstance(answer, Refusal):
        raise answer
    return answer
