"""Routes of queue history: activity per minute or per step, of one queue or of several."""

from __future__ import annotations

from windlass.core import errors
from windlass.core.stats.rollup import sum_queues
from windlass.core.validation.queues import check_history_window
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import READERS, Routes
from windlass.wire.queues import HistoriesQuery, HistoriesShape, HistoryQuery, HistoryShape, MinuteShape
from windlass.wire.shape import to_shape

routes = Routes("/api/v1", tag="Queues")

HISTORIES_MAX = 1000  # queues in one answer
_READING = {"roles": READERS, "refuses": (errors.TooLarge,)}


@routes.get("/queues/{queue}/history", query=HistoryQuery, response=HistoryShape, **_READING)
async def queue_history(context: RequestContext[None, HistoryQuery]) -> HistoryShape:
    """Read the activity of a queue, per minute."""
    name = context.path["queue"]
    context.check_queue(name)
    minutes = await context.service.history(name, hours=context.query.hours)
    return HistoryShape(minutes=[to_shape(minute, MinuteShape) for minute in minutes])


@routes.get("/history", query=HistoriesQuery, response=HistoriesShape, **_READING)
async def history(context: RequestContext[None, HistoriesQuery]) -> HistoriesShape:
    """Read the activity of several or all queues, in steps of some minutes, and in total.

    The last step is not over yet. A token limited to some queues sees these queues."""
    query = context.query
    for name in query.queue:
        context.check_queue(name)
    check_history_window(query.step_minutes, query.steps)
    names = query.queue or [name for name in await context.service.queues() if context.principal.may_use(name)]
    shown = names[:HISTORIES_MAX]
    found = await context.service.histories(shown, step_minutes=query.step_minutes, steps=query.steps)
    return HistoriesShape(
        total=[to_shape(step, MinuteShape) for step in sum_queues(found.values())],
        queues={name: [to_shape(step, MinuteShape) for step in history] for name, history in found.items()},
        left_out=len(names) - len(shown),
    )
