"""Shapes of limits and of their current levels."""

from __future__ import annotations

from typing import Annotated, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from windlass.core.errors import BadInput
from windlass.core.limits.condition import Condition, Scalar
from windlass.core.limits.limit import Limit, LimitState, Matcher
from windlass.core.validation.bounds import DURATION_MAX, LANE_MAX, NAME_MAX, PAGE_MAX, QUEUE_MAX, UINT32_MAX
from windlass.core.validation.limits import CAP_NOTE_MAX
from windlass.core.validation.matchers import FIELDS_PER_MATCHER, IN_MAX, INT64_MAX, INT64_MIN, PATH_MAX, VALUE_MAX

from .fields import Id
from .shape import RequestShape, ResponseShape, component_name, to_shape

AGGREGATION_KEY_MAX = 64 * 1024
MATCHER_EXAMPLE = '{"name": {"prefix": "send_"}, "payload": {"size": {"gt": 1000}}}'
PayloadPath: TypeAlias = Annotated[str, Meta(min_length=1, max_length=PATH_MAX)]
ScalarValue: TypeAlias = (
    Annotated[str, Meta(max_length=VALUE_MAX)] | Annotated[int, Meta(ge=INT64_MIN, le=INT64_MAX)] | float | bool | None
)
T = TypeVar("T")
Bound: TypeAlias = Annotated[int, Meta(ge=INT64_MIN, le=INT64_MAX)] | float


class ConditionShape(RequestShape, frozen=True, kw_only=True, rename={"in_": "in", "not_": "not"}):
    """Conditions on one value. All given conditions must hold; at least one must be given. A field that does not exist
    meets only `exists: false` and `not`."""

    in_: (
        Annotated[
            list[ScalarValue], Meta(min_length=1, max_length=IN_MAX, description="The value equals one of these.")
        ]
        | UnsetType
    ) = UNSET
    glob: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=NAME_MAX,
                description="The value is text of at most 1,024 characters that matches this pattern with `*`, `?`, "
                "`[a-z]`, `[^a-z]`.",
            ),
        ]
        | UnsetType
    ) = UNSET
    prefix: (
        Annotated[str, Meta(min_length=1, max_length=VALUE_MAX, description="The value is text that starts with this.")]
        | UnsetType
    ) = UNSET
    gt: Annotated[Bound, Meta(description="The value is a number greater than this.")] | UnsetType = UNSET
    gte: Annotated[Bound, Meta(description="The value is a number not less than this.")] | UnsetType = UNSET
    lt: Annotated[Bound, Meta(description="The value is a number less than this.")] | UnsetType = UNSET
    lte: Annotated[Bound, Meta(description="The value is a number not greater than this.")] | UnsetType = UNSET
    exists: (
        Annotated[bool, Meta(description="The field exists (null is a value too), or with false: it does not.")]
        | UnsetType
    ) = UNSET
    not_: (
        Annotated[
            ScalarValue | ConditionShape,
            Meta(description="The value does not equal this, or does not meet this condition."),
        ]
        | UnsetType
    ) = UNSET


def condition_of(value: T | ConditionShape) -> T | Condition:
    """Convert a condition. A plain value stays as it is."""
    if isinstance(value, ConditionShape):
        return msgspec.convert(msgspec.to_builtins(value), Condition)
    return value


def condition_shape(value: T | Condition) -> T | ConditionShape:
    if isinstance(value, Condition):
        return msgspec.convert(msgspec.to_builtins(value), ConditionShape)
    return value


@component_name("MatcherShape")
class LimitMatcherShape(RequestShape, frozen=True, kw_only=True, rename={"not_": "not"}):
    """The jobs that a limit applies to. All given conditions must hold; without conditions it applies to all jobs."""

    queue: Annotated[str, Meta(max_length=QUEUE_MAX)] | ConditionShape = ""
    name: Annotated[str, Meta(max_length=NAME_MAX)] | ConditionShape = ""
    lane: Annotated[str, Meta(max_length=LANE_MAX)] | ConditionShape = ""
    payload: Annotated[
        dict[PayloadPath, ScalarValue | ConditionShape],
        Meta(
            max_length=FIELDS_PER_MATCHER,
            description="Dotted paths of payload fields, with the scalar value or the condition of each.",
        ),
    ] = msgspec.field(default_factory=dict)
    not_: LimitMatcherShape | UnsetType = UNSET


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
            matches=matcher_of(self.matches),
            running=self.running,
            rate=self.rate,
            per_ms=self.per_ms,
            burst=self.burst,
            key=self.key,
            own_caps=self.own_caps,
        )


class SetCapShape(RequestShape, frozen=True, kw_only=True):
    """A change of the cap of a key. Give `running` or `note`, or both; the other stays."""

    key: Annotated[
        str, Meta(max_length=AGGREGATION_KEY_MAX, description="The text that the payload field of the key has.")
    ]
    running: Annotated[
        Annotated[int, Meta(ge=1, le=UINT32_MAX)] | None, Meta(description="Jobs of the key that may run at once.")
    ] = None
    note: Annotated[
        Annotated[str, Meta(max_length=CAP_NOTE_MAX)] | None, Meta(description="Kept for the workers of its jobs.")
    ] = None


class AggregationShape(ResponseShape, frozen=True, kw_only=True):
    """One key of a limit with `own_caps`: its jobs that have not ended, and its cap."""

    key: str
    queued: int
    scheduled: Annotated[int, Meta(description="Includes waiting jobs.")]
    running: Annotated[int, Meta(description="Includes dispatched jobs.")]
    cap: Annotated[int | None, Meta(description="Jobs that may run at once; null: the number of the limit.")]
    note: str


@component_name("LevelShape")
class LimitLevelShape(ResponseShape, frozen=True, kw_only=True):
    """Usage of a limit, for one key or as a whole."""

    key: str | None
    running: int
    blocked_lanes: Annotated[int, Meta(description="Lanes whose first job waits for this limit.")]
    room: Annotated[int | None, Meta(description="Jobs that may start now; null: no limit.")]
    next_token_at_ms: Annotated[int | None, Meta(description="For a rate: when the next job may start.")]


class MatchesShape(ResponseShape, frozen=True, kw_only=True, rename={"not_": "not"}):
    queue: str | ConditionShape
    name: str | ConditionShape
    lane: str | ConditionShape
    payload: dict[str, Scalar | ConditionShape]
    not_: LimitMatcherShape | UnsetType = UNSET


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
        matches=_matches_shape(limit.matches),
        running=limit.running,
        rate=limit.rate,
        per_ms=limit.per_ms,
        burst=limit.burst,
        key=limit.key,
        own_caps=limit.own_caps,
        levels=[to_shape(level, LimitLevelShape) for level in state.levels],
    )


def matcher_of(shape: LimitMatcherShape | MatchesShape) -> Matcher:
    return msgspec.convert(msgspec.to_builtins(shape), Matcher)


def parse_matcher(text: str) -> Matcher:
    """Parse a matcher in JSON, as people type it. Raise BadInput if it is none."""
    try:
        return matcher_of(msgspec.json.decode(text.encode(), type=LimitMatcherShape))
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise BadInput(f"{text!r:.80} is not a matcher: {error}. An example: {MATCHER_EXAMPLE}") from error


def format_matcher(matches: Matcher) -> str:
    """Return a matcher as JSON that `parse_matcher` reads."""
    return msgspec.json.encode(matches).decode()


def matcher_shape(matches: Matcher) -> LimitMatcherShape:
    return msgspec.convert(msgspec.to_builtins(matches), LimitMatcherShape)


def limit_shape(limit: Limit) -> LimitShape:
    fields = {name: getattr(limit, name) for name in LimitShape.__struct_fields__ if name != "matches"}
    return LimitShape(matches=matcher_shape(limit.matches), **fields)


def _matches_shape(matches: Matcher) -> MatchesShape:
    without_conditions = {"queue": "", "name": "", "lane": "", "payload": {}}
    return msgspec.convert(without_conditions | msgspec.to_builtins(matches), MatchesShape)
