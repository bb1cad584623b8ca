"""Queues: what they hold, their properties, pauses and shares; and how they are emptied."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from windlass.core import errors
from windlass.core.errors import BadInput, Refusal
from windlass.core.operations import Listing
from windlass.core.queue import Lanes
from windlass.core.states import State
from windlass.core.validation.bounds import QUEUE_MAX
from windlass.core.validation.limits import check_weights
from windlass.core.validation.values import check_text
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import ADMIN, READS, Routes
from windlass.wire.queues import (
    ActivePauseShape,
    AllWeightsShape,
    ConfigurationChangesShape,
    ConfigurationShape,
    LanesQuery,
    PauseShape,
    PausesShape,
    PurgedShape,
    PurgeShape,
    QueueShape,
    QueuesQuery,
    QueuesShape,
    QueueStatsShape,
    ResumeShape,
    WasPausedShape,
    WeightsShape,
)
from windlass.wire.shape import to_shape

routes = Routes("/api/v1", tag="Queues")

PURGED_AT_ONCE = 500
_READING = {"roles": READS, "refuses": (errors.TooLarge,)}
_CHANGING = {"roles": ADMIN, "refuses": (errors.TooLarge, errors.EngineFull), "is_audited": True}


AskQueue: TypeAlias = RequestContext[None, None]


@routes.get("/queues", query=QueuesQuery, response=QueuesShape, **_READING)
async def queues(context: RequestContext[None, QueuesQuery]) -> QueuesShape:
    """All queues that hold something or are configured, by name, with what they hold.

    A token for some queues is shown these."""
    check_text("after", context.query.after, QUEUE_MAX, may_be_empty=True)
    names = [
        name
        for name in await context.service.queues()
        if name > context.query.after and context.principal.may_use(name)
    ]
    page = names[: context.query.most]
    found = await context.service.stats(page) if page else []
    return QueuesShape(
        queues=[to_shape(stats, QueueStatsShape) for stats in found], after=page[-1] if len(names) > len(page) else ""
    )


@routes.get("/queues/{queue}", response=QueueShape, **_READING)
async def queue(context: AskQueue) -> QueueShape:
    """One queue: what it holds, its properties, its pauses, the weights of its lanes.

    A queue that nobody has used has nothing in it and the default properties."""
    name = _queue(context)
    [stats] = await context.service.stats([name])
    return QueueShape(
        stats=to_shape(stats, QueueStatsShape),
        configuration=to_shape(await context.service.configuration(name), ConfigurationShape),
        pauses=[to_shape(one, ActivePauseShape) for one in await context.service.pauses(name)],
        weights=await context.service.set_weights(name, {}),
    )


def _queue(context: RequestContext[Any, Any]) -> str:
    name = context.path["queue"]
    context.audit_target = name
    context.check_queue(name)
    return name


# Properties


@routes.get("/queues/{queue}/configuration", response=ConfigurationShape, **_READING)
async def queue_configuration(context: AskQueue) -> ConfigurationShape:
    """The properties of a queue."""
    return to_shape(await context.service.configuration(_queue(context)), ConfigurationShape)


@routes.patch("/queues/{queue}/configuration", body=ConfigurationChangesShape, response=ConfigurationShape, **_CHANGING)
async def configure_queue(context: RequestContext[ConfigurationChangesShape, None]) -> ConfigurationShape:
    """Change properties of a queue while jobs flow.

    Answers all of them, as they are now."""
    changes = context.body.changes()
    context.audit_detail = msgspec.json.encode(changes).decode()
    return to_shape(await context.service.configure(_queue(context), changes), ConfigurationShape)


@routes.put("/queues/{queue}/weights", body=WeightsShape, response=AllWeightsShape, **_CHANGING)
async def weigh_lanes(context: RequestContext[WeightsShape, None]) -> AllWeightsShape:
    """Set the weights of lanes, 1 to 100.

    Lanes that are not named have 1 again."""
    name, wanted = _queue(context), context.body.weights
    context.audit_detail = msgspec.json.encode(wanted).decode()
    check_weights(name, wanted)
    before = await context.service.set_weights(name, {})
    return AllWeightsShape(weights=await context.service.set_weights(name, dict.fromkeys(before, 1) | wanted))


@routes.get("/queues/{queue}/lanes", query=LanesQuery, response=Lanes, **_READING)
async def queue_lanes(context: RequestContext[None, LanesQuery]) -> Lanes:
    """One page of the lanes in which jobs wait: how many, how long, and what holds each back."""
    return await context.service.lanes(_queue(context), most=context.query.most, cursor=context.query.cursor)


# Pauses


@routes.get("/queues/{queue}/pauses", response=PausesShape, **_READING)
async def queue_pauses(context: AskQueue) -> PausesShape:
    """What is paused in a queue, since when and why."""
    return PausesShape(
        pauses=[to_shape(one, ActivePauseShape) for one in await context.service.pauses(_queue(context))]
    )


@routes.post(
    "/queues/{queue}/pause", body=PauseShape, response=WasPausedShape,
    **_CHANGING | {"refuses": (errors.TooLarge, errors.EngineFull, errors.NamesNeedLanes)},
)  # fmt: skip
async def pause_queue(context: RequestContext[PauseShape, None]) -> WasPausedShape:
    """Let nothing be taken from a queue, or from a lane or a name of it.

    What runs goes on."""
    name, body = _queue(context), context.body
    context.audit_detail = _part(body) + body.reason
    is_new = await context.service.pause(name, lane=body.lane, name=body.name, reason=body.reason)
    return WasPausedShape(was_paused=not is_new)


@routes.post("/queues/{queue}/resume", body=ResumeShape, response=WasPausedShape, **_CHANGING)
async def resume_queue(context: RequestContext[ResumeShape, None]) -> WasPausedShape:
    """Let jobs be taken again, at once."""
    name, body = _queue(context), context.body
    context.audit_detail = _part(body)
    return WasPausedShape(was_paused=await context.service.resume(name, lane=body.lane, name=body.name))


def _part(body: ResumeShape) -> str:
    return f"lane {body.lane}: " if body.lane else f"name {body.name}: " if body.name else ""


# Purging


@routes.post("/queues/{queue}/purge", body=PurgeShape, response=PurgedShape, **_CHANGING)
async def purge_queue(context: RequestContext[PurgeShape, None]) -> PurgedShape:
    """Delete the jobs of a queue that are in one state, up to 500 per request.

    Repeat it with the cursor of the answer until `is_done`. Jobs that come in after the first request stay, and so
    do those that have been taken meanwhile."""
    name, state = _queue(context), context.body.state
    until_ms, _, cursor = context.body.cursor.partition(":")
    until = _instant(until_ms) if context.body.cursor else await context.service.now()
    listing = Listing(queue=name, state=state, most=PURGED_AT_ONCE, cursor=cursor)
    page = await context.service.jobs(listing)
    ids = [job.id for job in page.jobs if job.created_at_ms <= until and _is_still(job.state, state)]
    answers = await context.service.delete(ids) if ids else []
    deleted = sum(not isinstance(answer, Refusal) for answer in answers)
    context.audit_detail = f"{deleted} {state} jobs deleted"
    return PurgedShape(deleted=deleted, is_done=not page.cursor, cursor=f"{until}:{page.cursor}" if page.cursor else "")


def _instant(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise BadInput("The cursor is not one that a purge gave out; start again without it.")
    return int(text)


def _is_still(found: State, wanted: str) -> bool:
    return found.label == ("finished" if wanted == "history" else wanted)
