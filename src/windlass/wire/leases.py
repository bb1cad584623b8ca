"""Shapes of take requests and of the reports of lease holders."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from windlass.core.errors import Refusal
from windlass.core.ids import parse_id
from windlass.core.operations import Filter, Finish, Take, Update
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

from .encoding import Encoding
from .fields import WAIT_MAX_MS, Duration, DurationOrForever, Id, Instant, LeaseToken, Name, QueueName
from .jobs import JobShape
from .shape import ItemResult, RequestShape, ResponseShape, component_name
from .values import CodecName, Value, decode_value


class TakeShape(RequestShape, frozen=True, kw_only=True):
    """A request to take jobs. Give at most one of `only`, `all_but` and `glob`; they need queues with
    `name_lanes`."""

    queues: Annotated[tuple[QueueName, ...], Meta(min_length=1, max_length=QUEUES_PER_TAKE)]
    most: Annotated[int, Meta(ge=1, le=TAKE_MAX)] = 1
    wait_ms: Annotated[
        int, Meta(ge=0, le=WAIT_MAX_MS, description="How long to wait for the first job, in milliseconds.")
    ] = 0
    lease_ms: Annotated[
        DurationOrForever,
        Meta(description="The length of the lease, in milliseconds; 0: that of the job or the queue."),
    ] = 0
    accept_ms: Annotated[
        Duration, Meta(description="If over 0, jobs are only dispatched and must be accepted within this time.")
    ] = 0
    weights: tuple[Annotated[int, Meta(ge=1, le=1_000_000)], ...] = ()
    only: Annotated[tuple[Name, ...], Meta(max_length=NAMES_PER_FILTER)] = ()
    all_but: Annotated[tuple[Name, ...], Meta(max_length=NAMES_PER_FILTER)] = ()
    glob: Annotated[str, Meta(max_length=NAME_MAX)] = ""
    priority: Annotated[int, Meta(ge=INT32_MIN, le=INT32_MAX)] | None = None
    hidden: Annotated[bool, Meta(description="Take hidden jobs, too.")] = False
    steps: Annotated[
        bool,
        Meta(
            description="The worker knows steps: it reads GET /jobs/{id}/steps of a job with `is_durable` and does not "
            "repeat stored steps. Jobs with stored steps are given to such workers only."
        ),
    ] = False
    worker: Annotated[str | None, Meta(description="The id of the registered worker, a UUID.")] = None

    def request(self, *, wait_ms: int) -> Take:
        return Take(
            queues=self.queues,
            most=self.most,
            weights=self.weights,
            wants=Filter(
                only=self.only,
                all_but=self.all_but,
                glob=self.glob,
                priority=self.priority,
                hidden=self.hidden,
                steps=self.steps,
            ),
            worker=b"" if self.worker is None else parse_id(self.worker),
            lease_ms=self.lease_ms,
            accept_ms=self.accept_ms,
            wait_ms=wait_ms,
        )


class TakenShape(ResponseShape, frozen=True, kw_only=True):
    """The taken jobs. Each has a `lease_token`, which every report needs, and a `lease_deadline_at_ms`."""

    jobs: list[JobShape]
    next_due_at_ms: int | None


@component_name("HeldShape")
class LeaseRefShape(RequestShape, frozen=True, kw_only=True):
    token: LeaseToken


@component_name("HeldItem")
class LeaseRefItem(LeaseRefShape, frozen=True, kw_only=True):
    id: Id


class LeaseShape(LeaseRefShape, frozen=True, kw_only=True):
    lease_ms: Annotated[
        DurationOrForever, Meta(description="The length of the lease from now, in milliseconds; 0: as before.")
    ] = 0


class LeaseItem(LeaseShape, frozen=True, kw_only=True):
    id: Id


class AcceptedShape(ResponseShape, frozen=True, kw_only=True):
    deadline_at_ms: int | None


class ExtendedShape(ResponseShape, frozen=True, kw_only=True):
    """The extended lease. If `is_cancel_requested`, stop the job and report `fail` with `then` set to `cancelled`."""

    deadline_at_ms: int | None
    is_cancel_requested: bool
    fixed_for_ms: (
        Annotated[
            int,
            Meta(
                description="Only if the lease was not extended, because `lease_renewal` of its queue is off: "
                "milliseconds until the deadline. Stop the job then."
            ),
        ]
        | UnsetType
    ) = UNSET


class ProgressShape(LeaseRefShape, frozen=True, kw_only=True):
    progress: Annotated[float, Meta(ge=0, le=1)] | None = None
    note: Annotated[str, Meta(max_length=NOTE_MAX, description="A note for people; empty: remove the note.")] | None = (
        None
    )
    payload: Value | UnsetType = UNSET
    payload_base64: str | UnsetType = UNSET
    payload_codec: CodecName | UnsetType = UNSET

    def update(self, job_id: bytes, encoding: Encoding) -> Update:
        payload = decode_value("payload", self.payload, self.payload_base64, self.payload_codec, encoding)
        return Update(id=job_id, token=self.token, progress=self.progress, note=self.note, payload=payload)


class ProgressItem(ProgressShape, frozen=True, kw_only=True):
    id: Id


class UpdatedShape(ResponseShape, frozen=True, kw_only=True):
    revision: int
    is_cancel_requested: bool


class FinishShape(LeaseRefShape, frozen=True, kw_only=True):
    result: Value | UnsetType = UNSET
    result_base64: str | UnsetType = UNSET
    result_codec: CodecName | UnsetType = UNSET
    ignore_repeat: Annotated[bool, Meta(description="End a repeating job for good.")] = False

    def finish(self, job_id: bytes, encoding: Encoding) -> Finish:
        result = decode_value("result", self.result, self.result_base64, self.result_codec, encoding)
        return Finish(job_id, self.token, result, self.ignore_repeat)


class FinishItem(FinishShape, frozen=True, kw_only=True):
    id: Id


class FinishedShape(ResponseShape, frozen=True, kw_only=True):
    """The state after the report. `waiting`: the job has children or members that have not ended. `failed`,
    `cancelled`: one of them ended so and the job's policy follows it, or a cancel was requested."""

    outcome: Literal["finished", "waiting", "failed", "cancelled"]


def finished_shape(answer: Any) -> Any:
    return answer if isinstance(answer, Refusal) else FinishedShape(outcome=answer or "finished")


class FailShape(LeaseRefShape, frozen=True, kw_only=True):
    """A failed attempt. `then` decides what follows: `auto` applies the retry policy of the job, `retry` retries after
    `delay_ms`, `final` fails the job, `cancelled` ends a job whose cancel was requested."""

    then: Literal["auto", "retry", "final", "cancelled"] = "auto"
    delay_ms: Duration = 0
    reason: Annotated[str, Meta(min_length=1, max_length=REASON_MAX)] = "error"
    error: Value | UnsetType = UNSET
    error_base64: str | UnsetType = UNSET
    error_codec: CodecName | UnsetType = UNSET


class FailItem(FailShape, frozen=True, kw_only=True):
    id: Id


class FailedShape(ResponseShape, frozen=True, kw_only=True):
    outcome: Literal["retried", "failed", "cancelled"]


def failed_shape(answer: Any) -> Any:
    return answer if isinstance(answer, Refusal) else FailedShape(outcome=answer)


class ReleasedShape(ResponseShape, frozen=True, kw_only=True):
    state: str


class LineShape(RequestShape, frozen=True, kw_only=True):
    at_ms: Annotated[Instant, Meta(description="The time of the line by the clock of its writer.")]
    level: Annotated[str, Meta(min_length=1, max_length=LOG_LEVEL_MAX)] = "info"
    text: Annotated[str, Meta(max_length=LOG_LINE_MAX)]


class LogShape(LeaseRefShape, frozen=True, kw_only=True):
    lines: Annotated[tuple[LineShape, ...], Meta(min_length=1, max_length=LOG_LINES_MAX)]


class LogItem(LogShape, frozen=True, kw_only=True):
    id: Id


@component_name("Said")
class RecordedShape(ResponseShape, frozen=True, kw_only=True):
    """The report was accepted."""


RECORDED = RecordedShape()


class EmitShape(LeaseRefShape, frozen=True, kw_only=True):
    value: Value | UnsetType = UNSET
    value_base64: str | UnsetType = UNSET
    value_codec: CodecName | UnsetType = UNSET


class EmitItem(EmitShape, frozen=True, kw_only=True):
    id: Id


@component_name("ExchangeShape")
class FinishAndTakeShape(RequestShape, frozen=True, kw_only=True):
    """Reports and the next take in one request, for the loop of a worker."""

    finishes: tuple[FinishItem, ...] = ()
    failures: tuple[FailItem, ...] = ()
    take: TakeShape


@component_name("ExchangedShape")
class FinishedAndTakenShape(ResponseShape, frozen=True, kw_only=True):
    finished: list[ItemResult[FinishedShape]]
    failed: list[ItemResult[FailedShape]]
    jobs: list[JobShape]
    next_due_at_ms: int | None
