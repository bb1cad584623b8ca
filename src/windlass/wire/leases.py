"""Shapes of take requests and of the reports of lease holders."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from windlass.core.errors import Refusal
from windlass.core.ids import parse_id
from windlass.core.operations import Filter, Take
from windlass.core.validation.bounds import (
    INT32_MAX,
    INT32_MIN,
    LOG_LEVEL_MAX,
    LOG_LINE_MAX,
    LOG_LINES_MAX,
    NAME_MAX,
    NAMES_PER_FILTER,
    NOTE_MAX,
    QUEUES_PER_TAKE,
    REASON_MAX,
    TAKE_MAX,
)

from .batches import Outcome
from .fields import WAIT_MAX_MS, Duration, Given, Id, Instant, Name, QueueName, Shape, Term, Token
from .jobs import JobShape
from .values import CodecName, Value


class TakeShape(Shape, frozen=True, kw_only=True):
    """Which jobs are wanted, and how many. At most one of `only`, `all_but` and `glob`; they need a queue that is
    divided by name."""

    queues: Annotated[tuple[QueueName, ...], Meta(min_length=1, max_length=QUEUES_PER_TAKE)]
    most: Annotated[int, Meta(ge=1, le=TAKE_MAX)] = 1
    wait_ms: Annotated[int, Meta(ge=0, le=WAIT_MAX_MS, description="How long to wait for the first one.")] = 0
    lease_ms: Annotated[Term, Meta(description="Of the lease; 0: the job's or the queue's.")] = 0
    accept_ms: Annotated[Duration, Meta(description="Over 0: dispatched only, to be accepted within this time.")] = 0
    weights: tuple[Annotated[int, Meta(ge=1, le=1_000_000)], ...] = ()
    only: Annotated[tuple[Name, ...], Meta(max_length=NAMES_PER_FILTER)] = ()
    all_but: Annotated[tuple[Name, ...], Meta(max_length=NAMES_PER_FILTER)] = ()
    glob: Annotated[str, Meta(max_length=NAME_MAX)] = ""
    priority: Annotated[int, Meta(ge=INT32_MIN, le=INT32_MAX)] | None = None
    hidden: Annotated[bool, Meta(description="Hidden jobs too.")] = False
    worker: Annotated[str | None, Meta(description="The id under which the worker is registered, a UUID.")] = None

    def request(self, *, wait_ms: int) -> Take:
        return Take(
            queues=self.queues,
            most=self.most,
            weights=self.weights,
            wants=Filter(
                only=self.only, all_but=self.all_but, glob=self.glob, priority=self.priority, hidden=self.hidden
            ),
            worker=b"" if self.worker is None else parse_id(self.worker),
            lease_ms=self.lease_ms,
            accept_ms=self.accept_ms,
            wait_ms=wait_ms,
        )


class TakenShape(Given, frozen=True, kw_only=True):
    """Each job has its `lease_token`, which every report wants, and its `lease_deadline_at_ms`."""

    jobs: list[JobShape]
    next_due_at_ms: int | None


class HeldShape(Shape, frozen=True, kw_only=True):
    token: Token


class HeldItem(HeldShape, frozen=True, kw_only=True):
    id: Id


class LeaseShape(HeldShape, frozen=True, kw_only=True):
    lease_ms: Annotated[Term, Meta(description="How long it holds from now; 0: as before.")] = 0


class LeaseItem(LeaseShape, frozen=True, kw_only=True):
    id: Id


class AcceptedShape(Given, frozen=True, kw_only=True):
    deadline_at_ms: int | None


class ExtendedShape(Given, frozen=True, kw_only=True):
    """`is_cancel_requested`: somebody wants it stopped; end it with `fail`, then `cancelled`."""

    deadline_at_ms: int | None
    is_cancel_requested: bool


class ProgressShape(HeldShape, frozen=True, kw_only=True):
    progress: Annotated[float, Meta(ge=0, le=1)] | None = None
    note: Annotated[str, Meta(max_length=NOTE_MAX, description="For people; empty: none any more.")] | None = None
    payload: Value | UnsetType = UNSET
    payload_base64: str | UnsetType = UNSET
    payload_codec: CodecName | UnsetType = UNSET


class ProgressItem(ProgressShape, frozen=True, kw_only=True):
    id: Id


class UpdatedShape(Given, frozen=True, kw_only=True):
    revision: int
    is_cancel_requested: bool


class FinishShape(HeldShape, frozen=True, kw_only=True):
    result: Value | UnsetType = UNSET
    result_base64: str | UnsetType = UNSET
    result_codec: CodecName | UnsetType = UNSET
    ignore_repeat: Annotated[bool, Meta(description="A job that repeats ends for good.")] = False


class FinishItem(FinishShape, frozen=True, kw_only=True):
    id: Id


class FinishedShape(Given, frozen=True, kw_only=True):
    """`waiting`: it has children or members that have not ended. `failed`, `cancelled`: by its policy, as one of them
    ended so, or as a cancel was requested."""

    outcome: Literal["finished", "waiting", "failed", "cancelled"]


def finished(answer: Any) -> Any:
    return answer if isinstance(answer, Refusal) else FinishedShape(outcome=answer or "finished")


class FailShape(HeldShape, frozen=True, kw_only=True):
    """`then`: `auto` as the job's own `retry` says, pause and number of tries; `retry` after `delay_ms`; `final`;
    `cancelled`, of one that was asked to stop."""

    then: Literal["auto", "retry", "final", "cancelled"] = "auto"
    delay_ms: Duration = 0
    reason: Annotated[str, Meta(min_length=1, max_length=REASON_MAX)] = "error"
    error: Value | UnsetType = UNSET
    error_base64: str | UnsetType = UNSET
    error_codec: CodecName | UnsetType = UNSET


class FailItem(FailShape, frozen=True, kw_only=True):
    id: Id


class FailedShape(Given, frozen=True, kw_only=True):
    outcome: Literal["retried", "failed", "cancelled"]


def failed(answer: Any) -> Any:
    return answer if isinstance(answer, Refusal) else FailedShape(outcome=answer)


class ReleasedShape(Given, frozen=True, kw_only=True):
    state: str


class LineShape(Shape, frozen=True, kw_only=True):
    at_ms: Annotated[Instant, Meta(description="By the writer's own clock.")]
    level: Annotated[str, Meta(min_length=1, max_length=LOG_LEVEL_MAX)] = "info"
    text: Annotated[str, Meta(max_length=LOG_LINE_MAX)]


class LogShape(HeldShape, frozen=True, kw_only=True):
    lines: Annotated[tuple[LineShape, ...], Meta(min_length=1, max_length=LOG_LINES_MAX)]


class LogItem(LogShape, frozen=True, kw_only=True):
    id: Id


class Said(Given, frozen=True, kw_only=True):
    """It was heard."""


SAID = Said()


class EmitShape(HeldShape, frozen=True, kw_only=True):
    value: Value | UnsetType = UNSET
    value_base64: str | UnsetType = UNSET
    value_codec: CodecName | UnsetType = UNSET


class EmitItem(EmitShape, frozen=True, kw_only=True):
    id: Id


class ExchangeShape(Shape, frozen=True, kw_only=True):
    """Reports and the next taking in one request: what a worker sends in its loop."""

    finishes: tuple[FinishItem, ...] = ()
    failures: tuple[FailItem, ...] = ()
    take: TakeShape


class ExchangedShape(Given, frozen=True, kw_only=True):
    finished: list[Outcome[FinishedShape]]
    failed: list[Outcome[FailedShape]]
    jobs: list[JobShape]
    next_due_at_ms: int | None
