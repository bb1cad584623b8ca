"""Routes of queues: statistics, wanted workers, configuration, lane weights, pauses and purges."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from windlass.core import errors
from windlass.core.errors import BadInput, Refusal
from windlass.core.operations import Listing
from windlass.core.queue import Lanes
from windlass.core.scale import ScaleTarget
from windlass.core.states import State
from windlass.core.validation.limits import check_weights
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import ADMINS, READERS, Routes
from windlass.wire.queues import (
    ActivePauseShape,
    AllWeightsShape,
    ConfigurationChangesShape,
    ConfigurationShape,
    LanesQuery,
    ListQueuesQuery,
    PauseShape,
    PausesShape,
    PurgedShape,
    PurgeShape,
    QueueShape,
    QueuesShape,
    QueueStatsShape,
    RemovedQueueShape,
    RemoveQueueQuery,
    ResumeShape,
    ScaleQuery,
    ScaleShape,
    UnknownNameShape,
    UnknownNamesQuery,
    UnknownNamesShape,
    WasPausedShape,
    WeightsShape,
)
from windlass.wire.shape import to_shape

routes = Routes("/api/v1", tag="Queues")

PURGE_MAX = 500  # jobs per request
_READING = {"roles": READERS, "refuses": (errors.TooLarge,)}
_CHANGING = {"roles": ADMINS, "refuses": (errors.TooLarge, errors.EngineFull), "is_audited": True}

QueueContext: TypeAlias = RequestContext[None, None]


@routes.get("/queues", query=ListQueuesQuery, response=QueuesShape, **_READING)
async def queues(context: RequestContext[None, ListQueuesQuery]) -> QueuesShape:
    """List all queues that have jobs or a configuration, by name, with their statistics.

    A token limited to some queues sees these queues."""
    page = await context.service.queues_page(
        after=context.query.after, most=context.query.most, queues=context.principal.queues
    )
    return QueuesShape(queues=[to_shape(stats, QueueStatsShape) for stats in page.stats], after=page.after)


@routes.get("/queues/{queue}", response=QueueShape, **_READING)
async def queue(context: QueueContext) -> QueueShape:
    """Read a queue: its statistics, configuration, pauses and lane weights.

    A queue that does not exist is empty and has the default configuration; `suggestion` is an existing queue with a
    similar name."""
    name = _checked_queue(context)
    presence = await context.service.queue_presence(name, queues=context.principal.queues)
    [stats] = await context.service.stats([name])
    return QueueShape(
        stats=to_shape(stats, QueueStatsShape),
        configuration=to_shape(await context.service.configuration(name), ConfigurationShape),
        pauses=[to_shape(pause, ActivePauseShape) for pause in await context.service.pauses(name)],
        weights=await context.service.set_weights(name, {}),
        unknown_names=tuple(to_shape(found, UnknownNameShape) for found in await context.service.unknown_names(name)),
        exists=presence.exists,
        suggestion=presence.suggestion,
    )


@routes.delete(
    "/queues/{queue}",
    query=RemoveQueueQuery,
    response=RemovedQueueShape,
    **_CHANGING | {"refuses": (errors.TooLarge, errors.QueueInUse)},
)
async def remove_queue(context: RequestContext[None, RemoveQueueQuery]) -> RemovedQueueShape:
    """Remove an empty queue: its configuration, pauses, weights, history and name.

    A queue that holds jobs is refused with `queue_in_use`, and without `force` also one that live workers serve. The
    next job creates the queue again, with the default configuration."""
    force = context.query.force
    context.audit_detail = "force" if force else ""
    return RemovedQueueShape(existed=await context.service.remove_queue(_checked_queue(context), force=force))


@routes.get("/queues/{queue}/unknown-names", query=UnknownNamesQuery, response=UnknownNamesShape, **_READING)
async def unknown_among(context: RequestContext[None, UnknownNamesQuery]) -> UnknownNamesShape:
    """Ask which of some names no live worker of the queue knows."""
    queue, names = _checked_queue(context), context.query.name
    found = await context.service.unknown_among(queue, names) if names else []
    return UnknownNamesShape(unknown_names=[to_shape(unknown, UnknownNameShape) for unknown in found])


def _checked_queue(context: RequestContext[Any, Any]) -> str:
    name = context.path["queue"]
    context.audit_target = name
    context.check_queue(name)
    return name


@routes.get("/queues/{queue}/configuration", response=ConfigurationShape, **_READING)
async def queue_configuration(context: QueueContext) -> ConfigurationShape:
    """Read the configuration of a queue."""
    return to_shape(await context.service.configuration(_checked_queue(context)), ConfigurationShape)


@routes.patch("/queues/{queue}/configuration", body=ConfigurationChangesShape, response=ConfigurationShape, **_CHANGING)
async def configure_queue(context: RequestContext[ConfigurationChangesShape, None]) -> ConfigurationShape:
    """Change the configuration of a queue. Running jobs are not interrupted.

    The answer is the whole configuration after the change."""
    changes = context.body.changes()
    context.audit_detail = msgspec.json.encode(changes).decode()
    return to_shape(await context.service.configure(_checked_queue(context), changes), ConfigurationShape)


@routes.put(
    "/queues/{queue}/weights", body=WeightsShape, response=AllWeightsShape, operation="weigh_lanes", **_CHANGING
)
async def set_lane_weights(context: RequestContext[WeightsShape, None]) -> AllWeightsShape:
    """Set the weights of lanes, 1 to 100.

    Lanes that are not named get weight 1."""
    name, wanted = _checked_queue(context), context.body.weights
    context.audit_detail = msgspec.json.encode(wanted).decode()
    check_weights(name, wanted)
    before = await context.service.set_weights(name, {})
    return AllWeightsShape(weights=await context.service.set_weights(name, dict.fromkeys(before, 1) | wanted))


@routes.get("/queues/{queue}/lanes", query=LanesQuery, response=Lanes, **_READING)
async def queue_lanes(context: RequestContext[None, LanesQuery]) -> Lanes:
    """List the lanes with waiting jobs, by page: the number of jobs, their age, and what blocks each lane."""
    return await context.service.lanes(_checked_queue(context), most=context.query.most, cursor=context.query.cursor)


@routes.get("/queues/{queue}/scale", query=ScaleQuery, response=ScaleShape, **_READING)
async def scale_queue(context: RequestContext[None, ScaleQuery]) -> ScaleShape:
    """Read how many workers a queue needs now, for a scaler of workers in any language.

    The number covers the backlog and the running jobs. A queue that does not exist, is empty or is paused needs `min`
    workers once no job runs."""
    goal = ScaleTarget(**msgspec.structs.asdict(context.query))
    return to_shape(await context.service.scale(_checked_queue(context), goal), ScaleShape)


@routes.get("/queues/{queue}/pauses", response=PausesShape, **_READING)
async def queue_pauses(context: QueueContext) -> PausesShape:
    """List the pauses of a queue, with start and reason."""
    return PausesShape(
        pauses=[to_shape(pause, ActivePauseShape) for pause in await context.service.pauses(_checked_queue(context))]
    )


@routes.post(
    "/queues/{queue}/pause", body=PauseShape, response=WasPausedShape,
    **_CHANGING | {"refuses": (errors.TooLarge, errors.EngineFull, errors.NamesNeedLanes)},
)  # fmt: skip
async def pause_queue(context: RequestContext[PauseShape, None]) -> WasPausedShape:
    """Pause a queue, a lane, or the jobs of one name: no job is taken from it.

    Running jobs continue."""
    name, body = _checked_queue(context), context.body
    context.audit_detail = _describe_part(body) + body.reason
    is_new = await context.service.pause(name, lane=body.lane, name=body.name, reason=body.reason)
    return WasPausedShape(was_paused=not is_new)


@routes.post("/queues/{queue}/resume", body=ResumeShape, response=WasPausedShape, **_CHANGING)
async def resume_queue(context: RequestContext[ResumeShape, None]) -> WasPausedShape:
    """End a pause: jobs can be taken again at once."""
    name, body = _checked_queue(context), context.body
    context.audit_detail = _describe_part(body)
    return WasPausedShape(was_paused=await context.service.resume(name, lane=body.lane, name=body.name))


def _describe_part(body: ResumeShape) -> str:
    return f"lane {body.lane}: " if body.lane else f"name {body.name}: " if body.name else ""


@routes.post("/queues/{queue}/purge", body=PurgeShape, response=PurgedShape, **_CHANGING)
async def purge_queue(context: RequestContext[PurgeShape, None]) -> PurgedShape:
    """Delete the jobs of a queue that are in one state, up to 500 per request.

    Repeat the request with the cursor of the answer until `is_done`. Jobs that arrive after the first request are kept,
    and so are jobs that are taken before their turn."""
    name, state = _checked_queue(context), context.body.state
    until_ms, _, cursor = context.body.cursor.partition(":")
    until = _parse_instant(until_ms) if context.body.cursor else await context.service.now()
    listing = Listing(queue=name, state=state, most=PURGE_MAX, cursor=cursor)
    page = await context.service.jobs(listing)
    ids = [job.id for job in page.jobs if job.created_at_ms <= until and _is_still(job.state, state)]
    answers = await context.service.delete(ids) if ids else []
    deleted = sum(not isinstance(answer, Refusal) for answer in answers)
    context.audit_detail = f"{deleted} {state} jobs deleted"
    return PurgedShape(deleted=deleted, is_done=not page.cursor, cursor=f"{until}:{page.cursor}" if page.cursor else "")


def _parse_instant(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise BadInput("The cursor is not from a purge; start again without a cursor.")
    return int(text)


def _is_still(state: State, wanted: str) -> bool:
    return state.label == ("finished" if wanted == "history" else wanted)
