"""Constraints: limits on LightJQ jobs, set and removed at run time."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from fractions import Fraction
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from windlass.core import errors
from windlass.core.errors import BadInput
from windlass.core.limits.condition import Condition, Scalar
from windlass.core.limits.limit import Level, Limit, LimitState, Matcher
from windlass.core.validation.bounds import DURATION_MAX, NAME_MAX, UINT32_MAX
from windlass.core.validation.limits import LIMIT_NAME_MAX
from windlass.core.validation.matchers import FIELDS_PER_MATCHER, IN_MAX
from windlass.core.validation.values import check_new_name
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import ADMINS, READERS
from windlass.wire.encoding import MSGPACK
from windlass.wire.limits import ConditionShape, PayloadPath, ScalarValue, condition_of, condition_shape

from .jobs import ensure_name_lanes
from .protocol import QUEUE, QueueName, make_routes

routes = make_routes("Constraints")

NAME_PREFIX = "lightjq-"
CONSTRAINT_NAME_MAX = LIMIT_NAME_MAX - len(NAME_PREFIX)
RATE_MIN, RATE_MAX = 0.000001, 1_000_000.0  # jobs per second
_DENOMINATOR_MAX = 1_000_000
_PERIOD_MAX_S = DURATION_MAX // 2_000


class JobMatcher(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, rename={"not_": "not"}
):
    """Conditions that a job must all meet. Without conditions it matches all jobs.

    Unknown conditions are refused: without them the matcher would match more jobs."""

    name: Annotated[
        Annotated[str, Meta(max_length=NAME_MAX)] | ConditionShape,
        Meta(description="A name, or `in`, `glob`, `prefix` and `not`."),
    ] = ""
    argument: Annotated[
        dict[PayloadPath, ScalarValue | ConditionShape],
        Meta(
            max_length=FIELDS_PER_MATCHER,
            description="Fields of the argument with their values or conditions. Nested fields have dots: `user.id`.",
        ),
    ] = msgspec.field(default_factory=dict)
    not_: Annotated[JobMatcher, Meta(description="Conditions that the job must not all meet.")] | UnsetType = UNSET

    def to_matcher(self, queue: str | Condition = "") -> Matcher:
        return Matcher(
            queue=queue,
            name=condition_of(self.name),
            payload={path: condition_of(value) for path, value in self.argument.items()},
            not_=None if self.not_ is UNSET else self.not_.to_matcher(),
        )

    @classmethod
    def of_matcher(cls, matches: Matcher) -> JobMatcher:
        return cls(
            name=condition_shape(matches.name),
            argument={path: condition_shape(value) for path, value in matches.payload.items()},
            not_=UNSET if matches.not_ is None else cls.of_matcher(matches.not_),
        )


class NewConstraint(msgspec.Struct, frozen=True, kw_only=True):
    """`rate` with `capacity`, or `max_running`."""

    name: Annotated[
        Annotated[str, Meta(min_length=1, max_length=CONSTRAINT_NAME_MAX)] | None,
        Meta(description="A constraint of this name is replaced. nil: the constraint is added to the others."),
    ] = None
    queues: Annotated[
        Annotated[list[QueueName], Meta(min_length=1, max_length=IN_MAX)] | None,
        Meta(description='The queues whose jobs it applies to. nil: `["lightjq"]`.', examples=[None]),
    ] = None
    matcher: JobMatcher = JobMatcher()
    rate: Annotated[Annotated[float, Meta(ge=RATE_MIN, le=RATE_MAX)] | None, Meta(description="Starts per second.")] = (
        None
    )
    capacity: Annotated[Annotated[int, Meta(ge=1, le=UINT32_MAX)] | None, Meta(description="Starts at once.")] = None
    max_running: Annotated[
        Annotated[int, Meta(ge=0, le=UINT32_MAX)] | None, Meta(description="Running jobs at once.")
    ] = None
    per: Annotated[
        PayloadPath | None,
        Meta(description="A field of the argument. The constraint then applies to each value of the field separately."),
    ] = None

    def constraint_id(self) -> str:
        """Return the id: the name, or a new id."""
        if self.name is None:
            return str(uuid.uuid4())
        check_new_name("name", self.name, CONSTRAINT_NAME_MAX)
        if _is_uuid(self.name):
            raise BadInput("The name of a constraint must not look like an id of a constraint without a name.")
        return self.name

    def named_queues(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.queues or (QUEUE,)))

    def to_limit(self, name: str) -> Limit:
        self._check()
        queues = self.named_queues()
        matches = self.matcher.to_matcher(queues[0] if len(queues) == 1 else Condition(in_=queues))
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


class MatcherShape(msgspec.Struct, frozen=True, kw_only=True, rename={"not_": "not"}):
    name: str | ConditionShape | None
    argument: dict[str, Scalar | ConditionShape]
    not_: JobMatcher | UnsetType = UNSET


class ConstraintShape(msgspec.Struct, frozen=True, kw_only=True):
    constraint_id: Annotated[str, Meta(description="The name of a constraint that has one.")]
    name: str | None
    queues: list[str]
    matcher: MatcherShape
    rate: float | None
    capacity: int | None
    max_running: int | None
    per: str | None
    levels: list[LevelShape]


def _level(level: Level) -> LevelShape:
    return LevelShape(per=level.key, running=level.running, room=level.room, next_token_at_ms=level.next_token_at_ms)


def _matcher_shape(matches: Matcher) -> MatcherShape:
    shown = JobMatcher.of_matcher(matches)
    return MatcherShape(name=shown.name or None, argument=dict(shown.argument), not_=shown.not_)


def _shape(state: LimitState) -> ConstraintShape:
    limit = state.limit
    constraint_id = limit.name.removeprefix(NAME_PREFIX)
    return ConstraintShape(
        constraint_id=constraint_id,
        name=None if _is_uuid(constraint_id) else constraint_id,
        queues=list(limit.matches.named_queues()),
        matcher=_matcher_shape(limit.matches),
        rate=None if limit.rate is None else limit.rate * 1000 / limit.per_ms,
        capacity=None if limit.rate is None else limit.burst or limit.rate,
        max_running=limit.running,
        per=limit.key or None,
        levels=[_level(level) for level in state.levels],
    )


def _is_uuid(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True


def constraint_shapes(limits: list[LimitState], may_use: Callable[[str], bool]) -> list[ConstraintShape]:
    """Return the constraints among the limits: those that this dialect has set, on queues that the token may use."""
    return [
        _shape(state)
        for state in limits
        if state.limit.name.startswith(NAME_PREFIX) and all(map(may_use, state.limit.matches.named_queues() or ("",)))
    ]


@routes.post(
    "/constraint", operation="set_constraint", roles=ADMINS, body=NewConstraint, body_media=MSGPACK,
    response=Constrained, response_media=MSGPACK, status=201, is_audited=True, is_listed=False,
    refuses=(errors.TooLarge, errors.CrossPartition, errors.EngineError),
)  # fmt: skip
async def set_constraint(context: RequestContext[NewConstraint, None]) -> Constrained:
    """Limit the jobs that a matcher selects.

    A constraint with a name replaces the constraint of that name, so a service may set it at each start. Jobs that
    already run count. The constraint applies to waiting jobs at once. A job that must wait for it does not block other
    jobs. Retries count like first attempts."""
    queues = context.body.named_queues()
    for queue in queues:
        context.check_queue(queue)
    constraint_id = context.body.constraint_id()
    context.audit_target = NAME_PREFIX + constraint_id
    operation = context.service.limit(context.body.to_limit(context.audit_target))
    if QUEUE in queues:
        await ensure_name_lanes(context.state)
    await operation
    return Constrained(constraint_id)


@routes.get(
    "/constraint", operation="constraints", roles=READERS, response=list[ConstraintShape], body_media=MSGPACK,
    response_media=MSGPACK, is_listed=False, refuses=(errors.EngineError,),
)  # fmt: skip
async def constraints(context: RequestContext[None, None]) -> list[ConstraintShape]:
    """List all constraints and their use.

    A constraint per value shows the values with running or waiting jobs. A token limited to some queues sees the
    constraints that apply to these queues only."""
    return constraint_shapes(await context.service.limits(), context.principal.may_use)


@routes.delete(
    "/constraint/{id}", operation="remove_constraint", status=204, roles=ADMINS, body_media=MSGPACK,
    response_media=MSGPACK, is_audited=True, is_listed=False, refuses=(errors.UnknownLimit, errors.EngineError),
)  # fmt: skip
async def remove_constraint(context: RequestContext[None, None]) -> None:
    """Remove a constraint by its id or name. Jobs that waited for it may start."""
    context.check_all_queues()  # the constraint may apply to any queue
    context.audit_target = NAME_PREFIX + context.path["id"]
    try:
        await context.service.unlimit(_parse_constraint_name(context.path["id"]))
    except (errors.BadInput, errors.TooLarge, errors.UnknownLimit) as error:
        raise errors.UnknownLimit("There is no constraint of this id or name.") from error


def _parse_constraint_name(text: str) -> str:
    check_new_name("name", text, CONSTRAINT_NAME_MAX)
    return NAME_PREFIX + (str(uuid.UUID(text)) if _is_uuid(text) else text)
