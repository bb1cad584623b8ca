"""Constraints: limits on LightJQ jobs, set and removed at run time."""

from __future__ import annotations

import uuid
from fractions import Fraction
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from windlass.core import errors
from windlass.core.errors import BadInput
from windlass.core.limits.limit import Level, Limit, LimitState, Matcher, Scalar
from windlass.core.validation.bounds import DURATION_MAX, NAME_MAX, UINT32_MAX
from windlass.core.validation.limits import FIELDS_PER_MATCHER, INT64_MAX, INT64_MIN, PATH_MAX, VALUE_MAX
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import ADMINS, READERS
from windlass.wire.encoding import MSGPACK

from .jobs import ensure_name_lanes
from .protocol import QUEUE, make_routes

routes = make_routes("Constraints")

NAME_PREFIX = "lightjq-"
RATE_MIN, RATE_MAX = 0.000001, 1_000_000.0  # jobs per second
_DENOMINATOR_MAX = 1_000_000
_PERIOD_MAX_S = DURATION_MAX // 2_000

Field: TypeAlias = Annotated[str, Meta(min_length=1, max_length=PATH_MAX)]
PlainValue: TypeAlias = (
    Annotated[str, Meta(max_length=VALUE_MAX)] | Annotated[int, Meta(ge=INT64_MIN, le=INT64_MAX)] | float | bool | None
)


class JobMatcher(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Conditions that a job must all meet. Without conditions it matches all jobs.

    Unknown conditions are refused: without them the matcher would match more jobs."""

    name: Annotated[str, Meta(max_length=NAME_MAX)] = ""
    argument: Annotated[
        dict[Field, PlainValue],
        Meta(
            max_length=FIELDS_PER_MATCHER,
            description="Fields of the argument and their values. Nested fields have dots, as `user.id`.",
        ),
    ] = msgspec.field(default_factory=dict)


class NewConstraint(msgspec.Struct, frozen=True, kw_only=True):
    """`rate` with `capacity`, or `max_running`."""

    matcher: JobMatcher = JobMatcher()
    rate: Annotated[Annotated[float, Meta(ge=RATE_MIN, le=RATE_MAX)] | None, Meta(description="Starts per second.")] = (
        None
    )
    capacity: Annotated[Annotated[int, Meta(ge=1, le=UINT32_MAX)] | None, Meta(description="Starts at once.")] = None
    max_running: Annotated[
        Annotated[int, Meta(ge=0, le=UINT32_MAX)] | None, Meta(description="Running jobs at once.")
    ] = None
    per: Annotated[
        Field | None,
        Meta(description="A field of the argument. The constraint then applies to each value of the field separately."),
    ] = None

    def to_limit(self, name: str) -> Limit:
        self._check()
        matches = Matcher(queue=QUEUE, name=self.matcher.name, payload=self.matcher.argument)
        if self.rate is None:
            return Limit(name=name, matches=matches, running=self.max_running, key=self.per or "")
        rate, per_ms = rate_per_period(self.rate)
        return Limit(name=name, matches=matches, rate=rate, per_ms=per_ms, burst=self.capacity or 0, key=self.per or "")

    def _check(self) -> None:
        if (self.rate is None) != (self.capacity is None):
            raise BadInput(
                "rate and capacity must be given together: jobs per second, and jobs that may start at once."
            )
        if (self.rate is None) == (self.max_running is None):
            raise BadInput("A constraint needs either rate and capacity, or max_running.")


def rate_per_period(rate: float) -> tuple[int, int]:
    """Convert a rate per second to whole numbers: a number of jobs, and a period in milliseconds.

    The result differs from the rate by less than a millionth."""
    if rate < 1:
        slow = Fraction(1 / rate).limit_denominator(min(_DENOMINATOR_MAX, max(1, int(_PERIOD_MAX_S * rate))))
        exact = Fraction(slow.denominator, slow.numerator)
    else:
        exact = Fraction(rate).limit_denominator(min(_DENOMINATOR_MAX, UINT32_MAX // (int(rate) + 1)))
    period = exact / 1000
    return period.numerator, period.denominator


class Constrained(msgspec.Struct, frozen=True):
    constraint_id: str


class LevelShape(msgspec.Struct, frozen=True, kw_only=True):
    """Use of a constraint, in total or for a single value of its field."""

    per: Annotated[str | None, Meta(description="The value, as JSON.")]
    running: int
    room: Annotated[int | None, Meta(description="Jobs that may start now. nil: no limit.")]
    next_token_at_ms: Annotated[int | None, Meta(description="When the next job may start, for a rate.")]


class MatcherShape(msgspec.Struct, frozen=True, kw_only=True):
    name: str | None
    argument: dict[str, Scalar]


class ConstraintShape(msgspec.Struct, frozen=True, kw_only=True):
    constraint_id: str
    matcher: MatcherShape
    rate: float | None
    capacity: int | None
    max_running: int | None
    per: str | None
    levels: list[LevelShape]


def _level(level: Level) -> LevelShape:
    return LevelShape(per=level.key, running=level.running, room=level.room, next_token_at_ms=level.next_token_at_ms)


def _shape(state: LimitState) -> ConstraintShape:
    limit = state.limit
    return ConstraintShape(
        constraint_id=limit.name.removeprefix(NAME_PREFIX),
        matcher=MatcherShape(name=limit.matches.name or None, argument=limit.matches.payload),
        rate=None if limit.rate is None else limit.rate * 1000 / limit.per_ms,
        capacity=None if limit.rate is None else limit.burst or limit.rate,
        max_running=limit.running,
        per=limit.key or None,
        levels=[_level(level) for level in state.levels],
    )


def constraint_shapes(limits: list[LimitState]) -> list[ConstraintShape]:
    """Return the constraints among the limits: those that this dialect has set."""
    return [_shape(state) for state in limits if state.limit.name.startswith(NAME_PREFIX)]


@routes.post(
    "/constraint", operation="set_constraint", roles=ADMINS, body=NewConstraint, body_media=MSGPACK,
    response=Constrained, response_media=MSGPACK, status=201, is_audited=True, is_listed=False,
    refuses=(errors.TooLarge, errors.EngineError),
)  # fmt: skip
async def set_constraint(context: RequestContext[NewConstraint, None]) -> Constrained:
    """Limit the jobs that a matcher selects.

    Jobs that already run count. The constraint applies to waiting jobs at once. A job that must wait for it does not
    block other jobs. Retries count like first attempts."""
    context.check_queue(QUEUE)
    constraint_id = str(uuid.uuid4())
    context.audit_target = NAME_PREFIX + constraint_id
    operation = context.service.limit(context.body.to_limit(context.audit_target))
    await ensure_name_lanes(context.state)
    await operation
    return Constrained(constraint_id)


@routes.get(
    "/constraint", operation="constraints", roles=READERS, response=list[ConstraintShape], body_media=MSGPACK,
    response_media=MSGPACK, is_listed=False, refuses=(errors.EngineError,),
)  # fmt: skip
async def constraints(context: RequestContext[None, None]) -> list[ConstraintShape]:
    """List all constraints and their use.

    A constraint per value shows the values with running or waiting jobs."""
    context.check_queue(QUEUE)
    return constraint_shapes(await context.service.limits())


@routes.delete(
    "/constraint/{id}", operation="remove_constraint", status=204, roles=ADMINS, body_media=MSGPACK,
    response_media=MSGPACK, is_audited=True, is_listed=False, refuses=(errors.UnknownLimit, errors.EngineError),
)  # fmt: skip
async def remove_constraint(context: RequestContext[None, None]) -> None:
    """Remove a constraint. Jobs that waited for it may start."""
    context.check_queue(QUEUE)
    context.audit_target = NAME_PREFIX + context.path["id"]
    await context.service.unlimit(_parse_constraint_name(context.path["id"]))


def _parse_constraint_name(text: str) -> str:
    try:
        return NAME_PREFIX + str(uuid.UUID(text))
    except ValueError as error:
        raise errors.UnknownLimit("There is no constraint of this id.") from error
