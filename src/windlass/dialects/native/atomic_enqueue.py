"""Jobs that are accepted together or not at all, as those of a flow: they may wait for each other."""

from __future__ import annotations

from windlass.core import errors
from windlass.core.errors import Refusal
from windlass.core.job_template import prepare_single
from windlass.core.operations import Enqueued
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import PRODUCES, Routes
from windlass.wire.enqueue import AcceptedWholeShape, EnqueueQuery, WholeShape, enqueued_shape

from .relations import read_relations

routes = Routes("/api/v1", tag="Producing")


@routes.post(
    "/jobs:whole", roles=PRODUCES, body=WholeShape, query=EnqueueQuery, response=AcceptedWholeShape,
    refuses=(
        errors.TooLarge, errors.IdConflict, errors.QueueFull, errors.EngineFull, errors.UnknownParent,
        errors.ParentState, errors.UnknownMember, errors.CrossPartition, errors.Unsettled, errors.WrongState,
        errors.BadSetting,
    ),
)  # fmt: skip
async def enqueue_whole(context: RequestContext[WholeShape, EnqueueQuery]) -> AcceptedWholeShape:
    """Enqueue up to 2,000 jobs as a whole: all are accepted, or none.

    They may wait for each other (`after`, `parent`) by ids that the caller makes. All lie in one partition, and none
    has a unique key. Sent again with the same ids, it changes nothing."""
    for item in context.body.items:
        context.check_queue(item.queue)
    jobs = [prepare_single(item.new_job(context.body_encoding)) for item in context.body.items]
    relations = await read_relations(context, jobs)
    if relations is not None:
        relations.check_whole(jobs)
    answers = await context.service.enqueue(jobs, durability=context.query.durability, whole=True)
    return AcceptedWholeShape(jobs=[enqueued_shape(_accepted(one)) for one in answers])


def _accepted(answer: Enqueued | Refusal) -> Enqueued:
    if isinstance(answer, Refusal):
        raise answer
    return answer
