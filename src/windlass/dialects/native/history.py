"""What happened in queues, per minute or in longer steps: of one queue, or of all at once."""

from __future__ import annotations

from windlass.core import errors
from windlass.core.stats.rollup import sum_queues
from windlass.core.validation.queues import check_history_window
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import READS, Routes
from windlass.wire.queues import HistoriesQuery, HistoriesShape, HistoryQuery, HistoryShape, MinuteShape
from windlass.wire.shape import to_shape

routes = Routes("/api/v1", tag="Queues")

HISTORIES_MAX = 1000  # queues of one answer
_READING = {"roles": READS, "refuses": (errors.TooLarge,)}


@routes.get("/queues/{queue}/history", query=HistoryQuery, response=HistoryShape, **_READING)
async def queue_history(context: RequestContext[None, HistoryQuery]) -> HistoryShape:
    """What happened in a queue, minute by minute."""
    name = context.path["queue"]
    context.check_queue(name)
    found = await context.service.history(name, hours=context.query.hours)
    return HistoryShape(minutes=[to_shape(one, MinuteShape) for one in found])


@routes.get("/history", query=HistoriesQuery, response=HistoriesShape, **_READING)
async def history(context: RequestContext[None, HistoriesQuery]) -> HistoriesShape:
    """What happened in several queues, or all, in steps of some minutes, and in total.

    The last step is under way. A token for some queues is shown these."""
    query = context.query
    for name in query.queue:
        context.check_queue(name)
    check_history_window(query.step_minutes, query.steps)
    names = query.queue or [name for name in await context.service.queues() if context.principal.may_use(name)]
    shown = names[:HISTORIES_MAX]
    found = await context.service.histories(shown, step_minutes=query.step_minutes, steps=query.steps)
    return HistoriesShape(
        total=[to_shape(one, MinuteShape) for one in sum_queues(found.values())],
        queues={name: [to_shape(one, MinuteShape) for one in history] for name, history in found.items()},
        left_out=len(names) - len(shown),
    )
