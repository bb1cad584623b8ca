"""Shapes of limits and of their current levels."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from windlass.core.limits.limit import Limit, LimitState, Matcher, Scalar
from windlass.core.validation.bounds import DURATION_MAX, LANE_MAX, NAME_MAX, PAGE_MAX, QUEUE_MAX, UINT32_MAX
from windlass.core.validation.limits import FIELDS_PER_MATCHER, INT64_MAX, INT64_MIN, PATH_MAX, VALUE_MAX

from .fields import Id
from .shape import RequestShape, ResponseShape, component_name, to_shape

PayloadPath: TypeAlias = Annotated[str, Meta(min_length=1, max_length=PATH_MAX)]
ScalarValue: TypeAlias = (
    Annotated[str, Meta(max_length=VALUE_MAX)] | Annotated[int, Meta(ge=INT64_MIN, le=INT64_MAX)] | float | bool | None
)


@component_name("MatcherShape")
class LimitMatcherShape(RequestShape, frozen=True, kw_only=True):
    """The jobs that a limit applies to. All given conditions must hold; without conditions it applies to all jobs."""

    queue: Annotated[str, Meta(max_length=QUEUE_MAX)] = ""
    name: Annotated[str, Meta(max_length=NAME_MAX)] = ""
    lane: Annotated[str, Meta(max_length=LANE_MAX)] = ""
    payload: Annotated[
        dict[PayloadPath, ScalarValue],
        Meta(
            max_length=FIELDS_PER_MATCHER,
            description="Dotted paths of payload fields, with the scalar value that each must have.",
        ),
    ] = msgspec.field(default_factory=dict)


class LimitShape(RequestShape, frozen=True, kw_only=True):
    """A limit to set. Give either `running` or `rate`."""

    matches: LimitMatcherShape = LimitMatcherShape()
    running: Annotated[
        Annotated[int, Meta(ge=0, le=UINT32_MAX)] | None,
        Meta(description="Jobs that may run at the same time; 0: no job may start."),
    ] = None
    rate: Annotated[
        Annotated[int, Meta(ge=1, le=UINT32_MAX)] | None, Meta(description="Jobs that may start per `per_ms`.")
    ] = None
    per_ms: Annotated[int, Meta(ge=1, le=DURATION_MAX)] = 1_000
    burst: Annotated[
        int, Meta(ge=0, le=UINT32_MAX, description="Jobs that may start at once; 0: as many as `rate`.")
    ] = 0
    key: Annotated[
        str,
        Meta(
            max_length=PATH_MAX,
            description="Path of a payload field: the limit applies to each of its values separately.",
        ),
    ] = ""
    own_caps: Annotated[bool, Meta(description="The first job of a key may set a cap for that key.")] = False

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


@component_name("LevelShape")
class LimitLevelShape(ResponseShape, frozen=True, kw_only=True):
    """Usage of a limit, for one key or as a whole."""

    key: str | None
    running: int
    blocked_lanes: Annotated[int, Meta(description="Lanes whose first job waits for this limit.")]
    room: Annotated[int | None, Meta(description="Jobs that may start now; null: no limit.")]
    next_token_at_ms: Annotated[int | None, Meta(description="For a rate: when the next job may start.")]


class MatchesShape(ResponseShape, frozen=True, kw_only=True):
    queue: str
    name: str
    lane: str
    payload: dict[str, Scalar]


class LimitStateShape(ResponseShape, frozen=True, kw_only=True):
    """A limit and its levels. A limit with a key has a level per key with running or blocked jobs, at most 1,000."""

    name: str
    matches: MatchesShape
    running: int | None
    rate: int | None
    per_ms: int
    burst: int
    key: str
    own_caps: bool
    levels: list[LimitLevelShape]


class LimitHolderShape(ResponseShape, frozen=True, kw_only=True):
    id: Id
    since_ms: int


class LimitHoldersShape(ResponseShape, frozen=True, kw_only=True):
    """Jobs that run under a limit, the longest running first."""

    count: int
    holders: list[LimitHolderShape]


class HoldersQuery(RequestShape, frozen=True, kw_only=True):
    key: Annotated[
        str | None,
        Meta(description="Required for a limit with a key: the key, as in its levels. Not allowed for other limits."),
    ] = None
    start: Annotated[int, Meta(ge=0, le=UINT32_MAX, description="How many jobs to skip.")] = 0
    most: Annotated[int, Meta(ge=1, le=PAGE_MAX)] = 100


class LimitsShape(ResponseShape, frozen=True, kw_only=True):
    limits: list[LimitStateShape]


class MatchedShape(ResponseShape, frozen=True, kw_only=True):
    changed: Annotated[int, Meta(description="Jobs whose set of limits changed.")]


def limit_state_shape(state: LimitState) -> LimitStateShape:
    limit = state.limit
    return LimitStateShape(
        name=limit.name,
        matches=to_shape(limit.matches, MatchesShape),
        running=limit.running,
        rate=limit.rate,
        per_ms=limit.per_ms,
        burst=limit.burst,
        key=limit.key,
        own_caps=limit.own_caps,
        levels=[to_shape(level, LimitLevelShape) for level in state.levels],
    )
