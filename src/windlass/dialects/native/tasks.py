"""Routes of tasks: how they ran, as workers report it."""

from __future__ import annotations

from windlass.core import errors
from windlass.core.errors import BadInput
from windlass.core.ids import parse_id
from windlass.core.validation.bounds import NAME_MAX
from windlass.core.validation.values import check_text
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import READERS, WORKERS, Routes
from windlass.wire.workers import (
    ListTasksQuery,
    TaskQuery,
    TaskReportedShape,
    TaskReportShape,
    TaskShape,
    TasksShape,
    task_shape,
    task_summary_shape,
    task_sums,
)

routes = Routes("/api/v1", tag="Tasks")


@routes.get("/tasks", roles=READERS, query=ListTasksQuery, response=TasksShape, refuses=(errors.TooLarge,))
async def tasks(context: RequestContext[None, ListTasksQuery]) -> TasksShape:
    """List the tasks that workers know, have run within two days, or whose failed jobs are kept, by name.

    The figures are of the last hour, and the workers of the SDK measure them. The answer may be 5 seconds old. A token
    limited to some queues sees and counts what happened in these queues."""
    query = context.query
    check_text("after", query.after, NAME_MAX, may_be_empty=True)
    found = await context.service.tasks(queues=context.principal.queues)
    wanted = [task for task in found if task.name > query.after]
    page = wanted[: query.most]
    after = page[-1].name if len(wanted) > len(page) else ""
    return TasksShape(tasks=[task_summary_shape(task) for task in page], after=after)


@routes.get("/tasks/{name}", roles=READERS, query=TaskQuery, response=TaskShape, refuses=(errors.TooLarge,))
async def task(context: RequestContext[None, TaskQuery]) -> TaskShape:
    """Read a task: its run times and failures over a range of time and in steps, its workers, and its errors.

    A task of which nothing is known is empty, with the suggestion of a similar name. A token limited to some queues
    sees and counts what happened in these queues."""
    query = context.query
    found = await context.service.task(
        context.path["name"], step_minutes=query.step_minutes, steps=query.steps, queues=context.principal.queues
    )
    return task_shape(found)


@routes.post(
    "/workers/{id}/tasks",
    roles=WORKERS,
    body=TaskReportShape,
    response=TaskReportedShape,
    refuses=(errors.UnknownWorker, errors.TooLarge, errors.EngineFull),
)
async def report_tasks(context: RequestContext[TaskReportShape, None]) -> TaskReportedShape:
    """Report how the attempts of a worker ended since its last report.

    The sums count for the current minute. Repeat a report whose answer was lost with the same number: it is counted
    once. Workers of the SDK report every few seconds, and nothing if no attempt has ended."""
    worker = context.path["id"]
    for sums in context.body.tasks:
        context.check_queue(sums.queue)
    try:
        worker_id = parse_id(worker)
    except BadInput as error:
        raise BadInput(f"{worker!r} is not the id of a worker.") from error
    await context.check_worker(worker_id)
    reported = [task_sums(sums) for sums in context.body.tasks]
    return TaskReportedShape(uncounted=await context.service.report_tasks(worker_id, context.body.number, reported))
