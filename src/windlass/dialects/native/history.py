"""What happened in queues, per minute or in longer steps: of one queue, or of all at once."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from windlass.core import errors
from windlass.core.stats.rollup import over_all
from windlass.core.validation.queues import HISTORY_HOURS_MAX, HISTORY_STEPS_MAX, check_history_window
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import READS, Routes

from .shapes import Given, QueueName, Shape, shaped

routes = Routes("/api/v1", tag="Queues")

HISTORIES_MAX = 1000  # queues of one answer
NAMED_MAX = 90  # of one request: a query has at most 100 fields
_READING = {"roles": READS, "refuses": (errors.TooLarge,)}


class HistoryQuery(Shape, frozen=True, kw_only=True):
    hours: Annotated[int, Meta(ge=1, le=HISTORY_HOURS_MAX)] = 1


_BY_BITS = Meta(
    description="Jobs counted by span: first those below 1 ms, then those of 1, 2 to 3, 4 to 7 ms and so on."
)
_ABOUT = Meta(description="Estimated from the counts; null when there are none.")


class MinuteShape(Given, frozen=True, kw_only=True):
    """What happened in a queue within one minute."""

    at_ms: int
    enqueued: int
    taken: int
    finished: int
    failed: int
    retried: int
    cancelled: int
    recovered: int
    wait_ms: Annotated[int, Meta(description="Sum over the jobs taken: from takeable to taken.")]
    run_ms: Annotated[int, Meta(description="Sum over the jobs finished: from start to end.")]
    waits: Annotated[tuple[int, ...], _BY_BITS]
    runs: Annotated[tuple[int, ...], _BY_BITS]
    wait_p50_ms: Annotated[int | None, _ABOUT]
    wait_p95_ms: Annotated[int | None, _ABOUT]
    run_p50_ms: Annotated[int | None, _ABOUT]
    run_p95_ms: Annotated[int | None, _ABOUT]


class HistoryShape(Given, frozen=True, kw_only=True):
    """Oldest first; minutes in which nothing happened are left out."""

    minutes: list[MinuteShape]


@routes.get("/queues/{queue}/history", query=HistoryQuery, response=HistoryShape, **_READING)
async def queue_history(context: RequestContext[None, HistoryQuery]) -> HistoryShape:
    """What happened in a queue, minute by minute."""
    name = context.path["queue"]
    context.check_queue(name)
    found = await context.service.history(name, hours=context.query.hours)
    return HistoryShape(minutes=[shaped(one, MinuteShape) for one in found])


class HistoriesQuery(Shape, frozen=True, kw_only=True):
    queue: Annotated[
        tuple[QueueName, ...],
        Meta(max_length=NAMED_MAX, description="These queues; may be repeated. None: all, in the order of names."),
    ] = ()
    step_minutes: Annotated[int, Meta(ge=1, le=60, description="The length of a step; it divides an hour.")] = 1
    steps: Annotated[int, Meta(ge=1, le=HISTORY_STEPS_MAX, description="At most 48 hours in all.")] = 60


class HistoriesShape(Given, frozen=True, kw_only=True):
    """Oldest first; steps in which nothing happened are left out."""

    total: list[MinuteShape]
    queues: dict[str, list[MinuteShape]]
    left_out: Annotated[int, Meta(description="Queues beyond the first 1,000; name those that you want.")]


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
        total=[shaped(one, MinuteShape) for one in over_all(found.values())],
        queues={name: [shaped(one, MinuteShape) for one in history] for name, history in found.items()},
        left_out=len(names) - len(shown),
    )
