"""Queues: what they hold, their properties, pauses and shares; and how they are emptied."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from windlass.core import errors
from windlass.core.errors import BadInput, Refusal
from windlass.core.operations import Listing
from windlass.core.queue import FOREVER_MS, Lanes
from windlass.core.states import State
from windlass.core.validation.bounds import CURSOR_MAX, LANE_MAX, NAME_MAX, PAGE_MAX, QUEUE_MAX
from windlass.core.validation.limits import PAUSE_REASON_MAX, WEIGHT_MAX, check_weights
from windlass.core.validation.queues import AGING_MAX
from windlass.core.validation.values import check_text
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import ADMIN, READS, Routes

from .shapes import Given, Shape, shaped

routes = Routes("/api/v1", tag="Queues")

PURGED_AT_ONCE = 500
WEIGHTS_MAX = 1000  # lanes of one request
_READING = {"roles": READS, "refuses": (errors.TooLarge,)}
_CHANGING = {"roles": ADMIN, "refuses": (errors.TooLarge, errors.EngineFull), "is_audited": True}

Lane: TypeAlias = Annotated[str, Meta(max_length=LANE_MAX)]
Weights: TypeAlias = dict[Lane, Annotated[int, Meta(ge=1, le=WEIGHT_MAX)]]
# None is the default again; what is not given stays as it is.
LeaseChange: TypeAlias = Annotated[int, Meta(ge=1, le=FOREVER_MS)] | UnsetType | None
Change: TypeAlias = Annotated[int, Meta(ge=0, le=FOREVER_MS)] | UnsetType | None
AgingChange: TypeAlias = Annotated[int, Meta(ge=0, le=AGING_MAX)] | UnsetType | None
Choice: TypeAlias = bool | UnsetType | None


class QueueStatsShape(Given, frozen=True, kw_only=True):
    """What a queue holds, read at one instant."""

    queue: str
    queued: Annotated[int, Meta(description="May be taken now.")]
    scheduled: Annotated[int, Meta(description="Wait for their time.")]
    waiting: Annotated[int, Meta(description="Wait for other jobs.")]
    running: Annotated[int, Meta(description="Held by workers, dispatched ones included.")]
    finished: Annotated[int, Meta(description="Kept for their result.")]
    failed: int
    cancelled: int
    history: Annotated[int, Meta(description="Finished ones that are kept to be looked at.")]
    bytes: Annotated[int, Meta(description="Of jobs that have not ended.")]
    lanes: Annotated[int, Meta(description="Lanes with waiting jobs, besides the default one.")]
    waiting_takers: int
    oldest_age_ms: Annotated[int | None, Meta(description="How long the oldest takeable job has been takeable.")]
    next_due_at_ms: Annotated[int | None, Meta(description="When the next scheduled job is due.")]
    blocked_lanes: Annotated[int, Meta(description="Lanes that a limit or a pause holds back.")]
    is_paused: bool


_LEASE = Meta(description="How long a lease holds without a heartbeat.")
_LENGTH = Meta(description="Waiting jobs; 0: no bound.")
_BYTES = Meta(description="Bytes of jobs that have not ended; 0: no bound.")
_HISTORY_LENGTH = Meta(description="Finished jobs that are kept to be looked at.")
_HISTORY_BYTES = Meta(description="Bytes of that history.")
_RETENTION = Meta(description="How long failed and cancelled jobs stay.")
_NAME_LANES = Meta(description="One lane per name, so that jobs can be taken by name.")
_AGING = Meta(description="Waiting that is worth one step of priority; 0: strict priority.")
_FAIR_SHARE = Meta(description="Lanes of equal priority take turns by weight.")


class ConfigurationShape(Given, frozen=True, kw_only=True):
    """The properties of a queue."""

    lease_ms: Annotated[int, _LEASE]
    max_length: Annotated[int, _LENGTH]
    max_bytes: Annotated[int, _BYTES]
    history_length: Annotated[int, _HISTORY_LENGTH]
    history_bytes: Annotated[int, _HISTORY_BYTES]
    retention_ms: Annotated[int, _RETENTION]
    name_lanes: Annotated[bool, _NAME_LANES]
    aging_ms: Annotated[int, _AGING]
    fair_share: Annotated[bool, _FAIR_SHARE]


class ConfigurationChangesShape(Shape, frozen=True, kw_only=True):
    """What to change of a queue's properties; null is the default again, what is not given stays as it is."""

    lease_ms: Annotated[LeaseChange, _LEASE] = UNSET
    max_length: Annotated[Change, _LENGTH] = UNSET
    max_bytes: Annotated[Change, _BYTES] = UNSET
    history_length: Annotated[Change, _HISTORY_LENGTH] = UNSET
    history_bytes: Annotated[Change, _HISTORY_BYTES] = UNSET
    retention_ms: Annotated[Change, _RETENTION] = UNSET
    name_lanes: Annotated[Choice, _NAME_LANES] = UNSET
    aging_ms: Annotated[AgingChange, _AGING] = UNSET
    fair_share: Annotated[Choice, _FAIR_SHARE] = UNSET

    def changes(self) -> dict[str, int | bool | None]:
        return {field: value for field, value in msgspec.structs.asdict(self).items() if value is not UNSET}


class ActivePauseShape(Given, frozen=True, kw_only=True):
    """What is paused: the queue, or one lane or name of it."""

    queue: str
    lane: str
    name: str
    since_ms: int
    reason: str


class PausesShape(Given, frozen=True, kw_only=True):
    pauses: list[ActivePauseShape]


class QueueShape(Given, frozen=True, kw_only=True):
    """One queue: what it holds, its properties, what is paused of it, and the weights of lanes that are not 1."""

    stats: QueueStatsShape
    configuration: ConfigurationShape
    pauses: list[ActivePauseShape]
    weights: dict[str, int]


class QueuesShape(Given, frozen=True, kw_only=True):
    queues: list[QueueStatsShape]
    after: Annotated[str, Meta(description="To be given as `after` for the next page; empty at the end.")]


class QueuesQuery(Shape, frozen=True, kw_only=True):
    after: Annotated[str, Meta(max_length=QUEUE_MAX, description="Only queues whose names come after this one.")] = ""
    most: Annotated[int, Meta(ge=1, le=PAGE_MAX)] = 100


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
        queues=[shaped(stats, QueueStatsShape) for stats in found], after=page[-1] if len(names) > len(page) else ""
    )


@routes.get("/queues/{queue}", response=QueueShape, **_READING)
async def queue(context: AskQueue) -> QueueShape:
    """One queue: what it holds, its properties, its pauses, the weights of its lanes.

    A queue that nobody has used has nothing in it and the default properties."""
    name = _queue(context)
    [stats] = await context.service.stats([name])
    return QueueShape(
        stats=shaped(stats, QueueStatsShape),
        configuration=shaped(await context.service.configuration(name), ConfigurationShape),
        pauses=[shaped(one, ActivePauseShape) for one in await context.service.pauses(name)],
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
    return shaped(await context.service.configuration(_queue(context)), ConfigurationShape)


@routes.patch("/queues/{queue}/configuration", body=ConfigurationChangesShape, response=ConfigurationShape, **_CHANGING)
async def configure_queue(context: RequestContext[ConfigurationChangesShape, None]) -> ConfigurationShape:
    """Change properties of a queue while jobs flow.

    Answers all of them, as they are now."""
    changes = context.body.changes()
    context.audit_detail = msgspec.json.encode(changes).decode()
    return shaped(await context.service.configure(_queue(context), changes), ConfigurationShape)


class WeightsShape(Shape, frozen=True, kw_only=True):
    """How many turns each lane has in a queue with `fair_share`."""

    weights: Annotated[Weights, Meta(max_length=WEIGHTS_MAX)]


class AllWeightsShape(Given, frozen=True, kw_only=True):
    """Of lanes that are not 1."""

    weights: dict[str, int]


@routes.put("/queues/{queue}/weights", body=WeightsShape, response=AllWeightsShape, **_CHANGING)
async def weigh_lanes(context: RequestContext[WeightsShape, None]) -> AllWeightsShape:
    """Set the weights of lanes, 1 to 100.

    Lanes that are not named have 1 again."""
    name, wanted = _queue(context), context.body.weights
    context.audit_detail = msgspec.json.encode(wanted).decode()
    check_weights(name, wanted)
    before = await context.service.set_weights(name, {})
    return AllWeightsShape(weights=await context.service.set_weights(name, dict.fromkeys(before, 1) | wanted))


class LanesQuery(Shape, frozen=True, kw_only=True):
    most: Annotated[int, Meta(ge=1, le=PAGE_MAX)] = 100
    cursor: Annotated[str, Meta(max_length=8192, description="Of the page before; empty: from the start.")] = ""


@routes.get("/queues/{queue}/lanes", query=LanesQuery, response=Lanes, **_READING)
async def queue_lanes(context: RequestContext[None, LanesQuery]) -> Lanes:
    """One page of the lanes in which jobs wait: how many, how long, and what holds each back."""
    return await context.service.lanes(_queue(context), most=context.query.most, cursor=context.query.cursor)


# Pauses


class ResumeShape(Shape, frozen=True, kw_only=True):
    """Nothing given: the queue itself."""

    lane: Annotated[str, Meta(max_length=LANE_MAX, description="Only this lane.")] = ""
    name: Annotated[
        str, Meta(max_length=NAME_MAX, description="Only jobs of this name; the queue needs name_lanes.")
    ] = ""


class PauseShape(ResumeShape, frozen=True, kw_only=True):
    """Nothing given: the queue itself."""

    reason: Annotated[str, Meta(max_length=PAUSE_REASON_MAX, description="Shown to whoever asks why nothing runs.")] = (
        ""
    )


class WasPausedShape(Given, frozen=True, kw_only=True):
    was_paused: Annotated[bool, Meta(description="Whether it was paused before.")]


@routes.get("/queues/{queue}/pauses", response=PausesShape, **_READING)
async def queue_pauses(context: AskQueue) -> PausesShape:
    """What is paused in a queue, since when and why."""
    return PausesShape(pauses=[shaped(one, ActivePauseShape) for one in await context.service.pauses(_queue(context))])


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


class PurgeShape(Shape, frozen=True, kw_only=True):
    """Which jobs, and where the last step ended."""

    state: Literal["queued", "scheduled", "waiting", "failed", "cancelled", "finished", "history"] = "queued"
    cursor: Annotated[str, Meta(max_length=CURSOR_MAX, description="Of the last answer; empty: begin.")] = ""


class PurgedShape(Given, frozen=True, kw_only=True):
    deleted: int
    is_done: Annotated[bool, Meta(description="False: ask again, with the cursor.")]
    cursor: str


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
