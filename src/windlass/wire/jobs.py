"""Shapes of stored jobs: records, attempts, results, members and pages."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from windlass.core.explain.lease_reasons import LeaseOverdue
from windlass.core.ids import format_id
from windlass.core.job import Attempt, End, Ending, Job, Member, OnFailure, Timeline
from windlass.core.limits.payload_index import CONDITIONS_MAX, WHERE_MAX
from windlass.core.text.error_text import SHAPE_MAX
from windlass.core.validation.bounds import NAME_MAX, QUEUE_MAX, SOUGHT_MAX, TAG_MAX, UNIQUE_MAX

from .encoding import Encoding
from .fields import WAIT_MAX_MS, Cursor, Id, Instant, PageSize, StateName, format_optional_id
from .new_job import CallbackShape, FlowRefShape, RetryShape, callback_shape, flow_ref_shape
from .shape import RequestShape, ResponseShape, component_name
from .values import CodecName, Value, encode_bytes, encode_value

component_name("Overdue")(LeaseOverdue)


_LABELS = ("tags", "index", "indexed")


class JobShape(ResponseShape, frozen=True, kw_only=True):
    """A job at one instant."""

    id: Id
    state: str
    queue: str
    name: str
    payload: Value | UnsetType = UNSET
    payload_base64: str | UnsetType = UNSET
    payload_codec: CodecName | UnsetType = UNSET
    payload_is_whole: bool
    priority: int
    created_at_ms: int
    run_at_ms: int
    started_at_ms: int | None
    ended_at_ms: int | None
    expires_at_ms: int | None
    lane: str
    unique: str | None
    retry: RetryShape
    lease_ms: int
    lease_rule: str
    retake: bool
    is_hidden: bool
    timeout_ms: int
    result_ttl_ms: int
    tags: tuple[str, ...]
    index: Annotated[tuple[str, ...], Meta(description="Payload fields that the producer of the job indexes.")] = ()
    indexed: Annotated[
        tuple[str, ...],
        Meta(description="What `where` finds the job by: `field=value`, or `field#digest` for a long value."),
    ] = ()
    trace: str
    repeat: str
    schedule: str
    planned_at_ms: int | None
    parent: Id | None
    is_held: bool
    joins: bool
    has_members: bool
    on_failure: OnFailure
    flow: FlowRefShape | None
    is_consequence: Annotated[
        bool, Meta(description="The job ended because a job that it waited for failed or was cancelled.")
    ]
    callback: CallbackShape | None
    attempt: int
    revision: int
    progress: float
    note: str
    is_cancel_requested: bool
    is_overdue: bool
    is_history: bool
    worker: str | None
    lease_token: int
    lease_deadline_at_ms: int | None
    is_durable: Annotated[bool, Meta(description="The job has stored steps, signals or a stream.")]


def job_shape(job: Job, encoding: Encoding) -> JobShape:
    payload = encode_value(job.payload, encoding) if job.payload_is_whole else encode_bytes(job.payload)
    return JobShape(
        id=format_id(job.id),
        state=job.state.label,
        queue=job.queue,
        name=job.name,
        payload=payload.value,
        payload_base64=payload.base64,
        payload_codec=payload.codec,
        payload_is_whole=job.payload_is_whole,
        priority=job.priority,
        created_at_ms=job.created_at_ms,
        run_at_ms=job.run_at_ms,
        started_at_ms=job.started_at_ms,
        ended_at_ms=job.ended_at_ms,
        expires_at_ms=job.expires_at_ms,
        lane=job.lane,
        unique=job.unique,
        retry=RetryShape(**msgspec.structs.asdict(job.retry)),
        lease_ms=job.lease_ms,
        lease_rule=job.lease_rule,
        retake=job.retake,
        is_hidden=job.is_hidden,
        timeout_ms=job.timeout_ms,
        result_ttl_ms=job.result_ttl_ms,
        **{field: getattr(job, field) for field in _LABELS},
        trace=job.trace,
        repeat=job.repeat,
        schedule=job.schedule,
        planned_at_ms=job.planned_at_ms,
        parent=format_optional_id(job.parent),
        is_held=job.is_held,
        joins=job.joins,
        has_members=job.has_members,
        on_failure=job.on_failure,
        flow=flow_ref_shape(job.flow),
        is_consequence=job.is_consequence,
        callback=None if job.callback is None else callback_shape(job.callback),
        attempt=job.attempt,
        revision=job.revision,
        progress=job.progress,
        note=job.note,
        is_cancel_requested=job.is_cancel_requested,
        is_overdue=job.is_overdue,
        is_history=job.is_history,
        worker=format_optional_id(job.worker),
        lease_token=job.lease_token, lease_deadline_at_ms=job.lease_deadline_at_ms, is_durable=job.is_durable,
    )  # fmt: skip


class AttemptShape(ResponseShape, frozen=True, kw_only=True):
    """An unsuccessful attempt."""

    attempt: int
    started_at_ms: int | None
    ended_at_ms: int
    worker: str | None
    reason: str
    error: Value | UnsetType = UNSET
    error_base64: str | UnsetType = UNSET
    error_codec: CodecName | UnsetType = UNSET


def attempt_shape(attempt: Attempt, encoding: Encoding) -> AttemptShape:
    error = encode_value(attempt.error, encoding)
    return AttemptShape(
        attempt=attempt.attempt,
        started_at_ms=attempt.started_at_ms,
        ended_at_ms=attempt.ended_at_ms,
        worker=format_optional_id(attempt.worker),
        reason=attempt.reason,
        error=error.value,
        error_base64=error.base64,
        error_codec=error.codec,
    )


class TimelineShape(ResponseShape, frozen=True, kw_only=True):
    """A job with its unsuccessful attempts, oldest first."""

    job: JobShape
    attempts: list[AttemptShape]


class CauseShape(ResponseShape, frozen=True, kw_only=True):
    """The job that caused the end of a job."""

    cause: Annotated[
        TimelineShape | None,
        Meta(description="null: the job ended by itself, has not ended, its cause is gone, or the cause is hidden."),
    ]
    is_hidden: Annotated[bool, Meta(description="The cause is in a queue that the token may not use.")] = False


def timeline_shape(timeline: Timeline, encoding: Encoding) -> TimelineShape:
    return TimelineShape(
        job=job_shape(timeline.job, encoding),
        attempts=[attempt_shape(attempt, encoding) for attempt in timeline.attempts],
    )


class WantedItem(RequestShape, frozen=True, kw_only=True):
    id: Id


class ResultQuery(RequestShape, frozen=True, kw_only=True):
    wait_ms: Annotated[
        int, Meta(ge=0, le=WAIT_MAX_MS, description="How long to wait for the end of the job, in milliseconds.")
    ] = 0
    consume: Annotated[
        bool, Meta(description="Read the result once: the server deletes it afterwards. Needs the role produce.")
    ] = False


class EndingShape(ResponseShape, frozen=True, kw_only=True):
    """The end of a job. `last_attempt` is given if the job did not finish."""

    state: End
    result: Value | UnsetType = UNSET
    result_base64: str | UnsetType = UNSET
    result_codec: CodecName | UnsetType = UNSET
    last_attempt: AttemptShape | None


class NotEndedShape(ResponseShape, frozen=True, kw_only=True):
    """The job has not ended yet."""

    state: StateName


def ending_shape(ending: Ending, encoding: Encoding) -> EndingShape:
    result = encode_value(ending.result, encoding)
    last = ending.last_attempt
    return EndingShape(
        state=ending.state.label,  # type: ignore[arg-type]
        result=result.value,
        result_base64=result.base64,
        result_codec=result.codec,
        last_attempt=None if last is None else attempt_shape(last, encoding),
    )


class MembersQuery(RequestShape, frozen=True, kw_only=True):
    state: tuple[StateName, ...] = ()
    most: PageSize = 50
    cursor: Cursor = ""


class MemberShape(ResponseShape, frozen=True, kw_only=True):
    """A child, or a job that this job waits for, with its result once it has ended."""

    job: JobShape
    result: Value | UnsetType = UNSET
    result_base64: str | UnsetType = UNSET
    result_codec: CodecName | UnsetType = UNSET
    last_attempt: AttemptShape | None


class MembersShape(ResponseShape, frozen=True, kw_only=True):
    """A page of members. `cursor` is empty on the last page. Other pages may be short or even empty."""

    members: list[MemberShape]
    cursor: str


def member_shape(member: Member, encoding: Encoding) -> MemberShape:
    outcome = encode_value(member.result, encoding)
    last = member.last_attempt
    return MemberShape(
        job=job_shape(member.job, encoding),
        result=outcome.value,
        result_base64=outcome.base64,
        result_codec=outcome.codec,
        last_attempt=None if last is None else attempt_shape(last, encoding),
    )


Where = Annotated[
    tuple[Annotated[str, Meta(max_length=WHERE_MAX)], ...],
    Meta(
        max_length=CONDITIONS_MAX,
        description="Values of indexed payload fields, as `order_id=4711`; all must hold. The first is looked up.",
    ),
]


class ListJobsQuery(RequestShape, frozen=True, kw_only=True):
    queue: Annotated[str, Meta(max_length=QUEUE_MAX, description="Empty: all queues, merged.")] = ""
    state: Annotated[
        StateName | Literal["history", "all", ""],
        Meta(
            description="Required unless a tag or `where` is given. `running` includes dispatched jobs. `all`: the "
            "newest jobs of every state, without the history, by their creation."
        ),
    ] = ""
    tag: Annotated[str, Meta(max_length=TAG_MAX)] = ""
    where: Where = ()
    name: Annotated[str, Meta(max_length=NAME_MAX, description="A pattern: * and ?.")] = ""
    created_from_ms: Instant = 0
    created_before_ms: Instant = 0
    ended_from_ms: Instant = 0
    ended_before_ms: Instant = 0
    error: Annotated[str, Meta(max_length=SOUGHT_MAX, description="Text in the last error; case is ignored.")] = ""
    error_shape: Annotated[
        str, Meta(max_length=SHAPE_MAX, description="The shape of the last error, as in GET /failures.")
    ] = ""
    with_errors: Annotated[bool, Meta(description="Include the last unsuccessful attempt of each job.")] = False
    newest_first: bool = False
    most: PageSize = 50
    cursor: Cursor = ""
    text: Annotated[
        str,
        Meta(
            max_length=SOUGHT_MAX,
            description="Text in the payload, read as compact JSON; case is ignored. A page searches up to 2,000 jobs.",
        ),
    ] = ""
    alias: Annotated[
        str,
        Meta(
            max_length=UNIQUE_MAX,
            description="Any name of a job: its id, Bedrock job number, download id, processor uuid or other unique "
            "key; or the beginning or end of its id, at least 4 digits. It can be combined with `queue` only.",
        ),
    ] = ""


class PageShape(ResponseShape, frozen=True, kw_only=True):
    """A page of jobs. `cursor` is empty on the last page. Other pages may hold fewer jobs than requested, even none. A
    long payload is cut: `payload_base64` has its beginning, and `payload_is_whole` is false."""

    jobs: list[JobShape]
    cursor: str
    looked_at: Annotated[int, Meta(description="Jobs that were examined for this page.")]
    last_attempts: Annotated[
        dict[str, AttemptShape],
        Meta(description="Last unsuccessful attempts by job id; filled if `with_errors` is set."),
    ]
    is_complete: Annotated[
        bool | UnsetType,
        Meta(
            description="False: there are more queues, jobs or matches than were examined. Always given with `alias`; "
            "without it if more than 1,000 queues have such jobs, or if there are more than 2,000 queues."
        ),
    ] = UNSET
