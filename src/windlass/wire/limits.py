"""Shapes of limits and of their current levels."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from windlass.core.limits.limit import Limit, LimitState, Matcher, Scalar
from windlass.core.validation.bounds import DURATION_MAX, LANE_MAX, NAME_MAX, PAGE_MAX, QUEUE_MAX, UINT32_MAX
from windlass.core.validation.limits import FIELDS_PER_MATCHER, INT64_MAX, INT64_MIN, PATH_MAX, VALUE_MAX

from .fields import Given, Id, Shape, shaped

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
