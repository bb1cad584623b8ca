"""Limits: how many matching jobs may run at once or start per time, and how full each is."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

from windlass.core import errors
from windlass.core.ids import format_id
from windlass.core.limits.limit import Limit, LimitState, Matcher, Scalar
from windlass.core.validation.bounds import DURATION_MAX, LANE_MAX, NAME_MAX, PAGE_MAX, QUEUE_MAX, UINT32_MAX
from windlass.core.validation.limits import FIELDS_PER_MATCHER, INT64_MAX, INT64_MIN, PATH_MAX, VALUE_MAX
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import ADMIN, READS, Routes

from .shapes import Given, Id, Shape, shaped

routes = Routes("/api/v1", tag="Limits")

Path: TypeAlias = Annotated[str, Meta(min_length=1, max_length=PATH_MAX)]

Plain: TypeAlias = (
    Annotated[str, Meta(max_length=VALUE_MAX)] | Annotated[int, Meta(ge=INT64_MIN, le=INT64_MAX)] | float | bool | None
)


class MatcherShape(Shape, frozen=True, kw_only=True):
    """Which jobs are meant: all conditions that are given must hold. None: all jobs."""

    queue: Annotated[str, Meta(max_length=QUEUE_MAX)] = ""
    name: Annotated[str, Meta(max_length=NAME_MAX)] = ""
    lane: Annotated[str, Meta(max_length=LANE_MAX)] = ""
    payload: Annotated[
        dict[Path, Plain],
        Meta(
            max_length=FIELDS_PER_MATCHER,
            description="Dotted paths of payload fields, and the plain value that each must have.",
        ),
    ] = msgspec.field(default_factory=dict)


class LimitShape(Shape, frozen=True, kw_only=True):
    """Either `running` or `rate`."""

    matches: MatcherShape = MatcherShape()
    running: Annotated[
        Annotated[int, Meta(ge=0, le=UINT32_MAX)] | None, Meta(description="Jobs at once; 0: none may start.")
    ] = None
    rate: Annotated[Annotated[int, Meta(ge=1, le=UINT32_MAX)] | None, Meta(description="Starts per `per_ms`.")] = None
    per_ms: Annotated[int, Meta(ge=1, le=DURATION_MAX)] = 1_000
    burst: Annotated[int, Meta(ge=0, le=UINT32_MAX, description="Starts in a row; 0: as many as `rate`.")] = 0
    key: Annotated[
        str,
        Meta(
            max_length=PATH_MAX,
            description="Path of a payload field: each of its values has the limit for itself.",
        ),
    ] = ""
    own_caps: Annotated[bool, Meta(description="A key's first job may give it a cap of its own.")] = False

    def limit(self, name: str) -> Limit:
        return Limit(
            name=name,
            matches=Matcher(**msgspec.structs.asdict(self.matches)),
            running=self.running,
            rate=self.rate,
            per_ms=self.per_ms,
            burst=self.burst,
            key=self.key,
            own_caps=self.own_caps,
        )


class LevelShape(Given, frozen=True, kw_only=True):
    """How full a limit is, for one key or as a whole."""

    key: str | None
    running: int
    blocked_lanes: Annotated[int, Meta(description="Lanes whose first job it holds back.")]
    room: Annotated[int | None, Meta(description="Jobs that may start now; null: no bound.")]
    next_token_at_ms: Annotated[int | None, Meta(description="Of a rate: when the next job may start.")]


class MatchesShape(Given, frozen=True, kw_only=True):
    queue: str
    name: str
    lane: str
    payload: dict[str, Scalar]


class LimitStateShape(Given, frozen=True, kw_only=True):
    """A limit and its levels: of one per key, the keys that run or hold something back, at most 1,000."""

    name: str
    matches: MatchesShape
    running: int | None
    rate: int | None
    per_ms: int
    burst: int
    key: str
    own_caps: bool
    levels: list[LevelShape]


class LimitHolderShape(Given, frozen=True, kw_only=True):
    id: Id
    since_ms: int


class LimitHoldersShape(Given, frozen=True, kw_only=True):
    """Those first that have run longest."""

    count: int
    holders: list[LimitHolderShape]


class HoldersQuery(Shape, frozen=True, kw_only=True):
    key: Annotated[
        str | None, Meta(description="Of a limit per key: which, as its levels name it; else it must not be given.")
    ] = None
    start: Annotated[int, Meta(ge=0, le=UINT32_MAX, description="How many to pass over.")] = 0
    most: Annotated[int, Meta(ge=1, le=PAGE_MAX)] = 100


class LimitsShape(Given, frozen=True, kw_only=True):
    limits: list[LimitStateShape]


class MatchedShape(Given, frozen=True, kw_only=True):
    changed: Annotated[int, Meta(description="Jobs whose limits are others now.")]


def _state(found: LimitState) -> LimitStateShape:
    limit = found.limit
    return LimitStateShape(
        name=limit.name,
        matches=shaped(limit.matches, MatchesShape),
        running=limit.running,
        rate=limit.rate,
        per_ms=limit.per_ms,
        burst=limit.burst,
        key=limit.key,
        own_caps=limit.own_caps,
        levels=[shaped(level, LevelShape) for level in found.levels],
    )


@routes.get("/limits", roles=READS, response=LimitsShape)
async def limits(context: RequestContext[None, None]) -> LimitsShape:
    """All limits, by name, and how full they are.

    A token for some queues is shown the limits that are about one of them."""
    return LimitsShape(limits=[_state(one) for one in await context.service.limits() if _may_see(context, one)])


@routes.get(
    "/limits/{name}/holders", roles=READS, query=HoldersQuery, response=LimitHoldersShape,
    refuses=(errors.TooLarge, errors.UnknownLimit),
)  # fmt: skip
async def limit_holders(context: RequestContext[None, HoldersQuery]) -> LimitHoldersShape:
    """Which jobs run under a limit; of one per key, under one of its keys."""
    context.check_all_queues()
    query = context.query
    found = await context.service.holders(context.path["name"], key=query.key, start=query.start, most=query.most)
    holders = [LimitHolderShape(id=format_id(one.id), since_ms=one.since_ms) for one in found.holders]
    return LimitHoldersShape(count=found.count, holders=holders)


def _may_see(context: RequestContext[Any, Any], found: LimitState) -> bool:
    queue = found.limit.matches.queue
    return not context.principal.queues or (bool(queue) and context.principal.may_use(queue))


@routes.put(
    "/limits/{name}", roles=ADMIN, body=LimitShape, response=MatchedShape, is_audited=True,
    refuses=(errors.TooLarge, errors.CrossPartition, errors.EngineFull),
)  # fmt: skip
async def set_limit(context: RequestContext[LimitShape, None]) -> MatchedShape:
    """Set a limit, or change the one of this name.

    Jobs that run already count; those that wait are matched anew."""
    context.audit_target = context.path["name"]
    context.audit_detail = msgspec.json.encode(context.body).decode()
    context.check_all_queues()
    return MatchedShape(changed=await context.service.limit(context.body.limit(context.audit_target)))


@routes.delete(
    "/limits/{name}", roles=ADMIN, response=MatchedShape, is_audited=True,
    refuses=(errors.TooLarge, errors.UnknownLimit, errors.EngineFull),
)  # fmt: skip
async def remove_limit(context: RequestContext[None, None]) -> MatchedShape:
    """Take a limit away; what it held back may run at once."""
    context.audit_target = context.path["name"]
    context.check_all_queues()
    return MatchedShape(changed=await context.service.unlimit(context.audit_target))
