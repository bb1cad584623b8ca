"""What the native API takes and gives, beside what each of its subjects has for itself: jobs, retries, callbacks, and
answers about many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Annotated, Any, Generic, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from windlass.core.errors import Refusal
from windlass.core.ids import format_id, parse_id
from windlass.core.job import ENDS, NOTHING, Attempt, Blob, Callback, End, Job, NewJob, OnFailure, Timeline, UniqueCheck
from windlass.core.job_template import Filled, Form, alone
from windlass.core.queue import FOREVER_MS
from windlass.core.retry import ENDLESS, Backoff
from windlass.core.text.durations import INSTANT_MAX
from windlass.core.validation.bounds import (
    AFTER_MAX,
    DURATION_MAX,
    INT32_MAX,
    INT32_MIN,
    LANE_MAX,
    NAME_MAX,
    PAUSE_MAX,
    QUEUE_MAX,
    TAGS_MAX,
    TRACE_MAX,
    UINT32_MAX,
    UNIQUE_MAX,
)
from windlass.core.validation.callbacks import TYPE_MAX
from windlass.web.app.encoding import Encoding
from windlass.web.app.problems import Problem, problem

from .values import CodecName, Value, read_payload, write, write_bytes

A = TypeVar("A")
T = TypeVar("T")
ITEMS_MAX = 1000
FORMS_MAX = 1024  # that a server remembers

Id: TypeAlias = Annotated[
    str, Meta(description="The id of a job, a UUID.", examples=["01890a5d-ac96-774b-bcce-b302099a8057"])
]
QueueName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=QUEUE_MAX, examples=["mail"])]
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=NAME_MAX, examples=["send"])]
Instant: TypeAlias = Annotated[int, Meta(ge=0, le=INSTANT_MAX, description="Milliseconds since 1970, UTC.")]
Duration: TypeAlias = Annotated[int, Meta(ge=0, le=DURATION_MAX, description="Milliseconds.")]
# Beyond all durations there is one value that means for ever.
Term: TypeAlias = Annotated[int, Meta(ge=0, le=FOREVER_MS, description=f"Milliseconds; {FOREVER_MS}: for ever.")]
Priority: TypeAlias = Annotated[int, Meta(ge=INT32_MIN, le=INT32_MAX, description="Smaller first.")]
Token: TypeAlias = Annotated[int, Meta(ge=0, lt=2**48, description="Of the lease; 0: of whoever holds the job.")]


class Shape(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a caller may give: nothing that we would not look at."""


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """What we answer."""


G = TypeVar("G", bound=Given)


def shaped(found: msgspec.Struct, shape: type[G]) -> G:
    """A shape with the fields of what was found, under the same names."""
    return msgspec.convert(found, shape, from_attributes=True)


class RetryShape(Shape, frozen=True, kw_only=True):
    """Attempts and the growing pauses between them."""

    tries: Annotated[int, Meta(ge=0, le=UINT32_MAX, description="0: never gives up.")] = 3
    base_ms: Annotated[int, Meta(ge=0, le=PAUSE_MAX)] = 1_000
    factor: Annotated[float, Meta(ge=1, le=1000)] = 2.0
    cap_ms: Annotated[int, Meta(ge=0, le=PAUSE_MAX)] = 600_000
    jitter: Annotated[float, Meta(ge=0, le=1)] = 0.1


class CallbackShape(Shape, frozen=True, kw_only=True):
    """A notice that is owed when the job ends."""

    url: Annotated[str, Meta(description="http or https; empty with `type` and `destination`.")] = ""
    type: Annotated[str, Meta(description="Who delivers it instead, e.g. `kafka`.", max_length=TYPE_MAX)] = ""
    destination: Annotated[str, Meta(description="Of that type: where to, e.g. a topic.")] = ""
    events: tuple[End, ...] = ENDS
    headers: dict[str, str] = {}


_CONVERTED = [NewJob.__struct_fields__.index(name) for name in ("id", "retry", "parent", "after", "callback")]
_ID, _RETRY, _PARENT, _AFTER, _CALLBACK = _CONVERTED
_in_another_form = itemgetter(*_CONVERTED)


class NewJobShape(Shape, frozen=True, kw_only=True, gc=False):
    """A job to be enqueued. Only `queue` and `name` are needed."""

    queue: QueueName
    name: Name
    payload: Value | UnsetType = UNSET
    payload_base64: str | UnsetType = UNSET
    payload_codec: CodecName | UnsetType = UNSET
    id: Id | None = None
    priority: Priority = 0
    run_at_ms: Instant = 0
    delay_ms: Duration = 0
    expires_at_ms: Instant = 0
    expires_in_ms: Duration = 0
    lane: Annotated[str, Meta(max_length=LANE_MAX)] = ""
    unique: Annotated[str, Meta(max_length=UNIQUE_MAX)] = ""
    unique_check: UniqueCheck = "keep"
    unique_while_kept: bool = False
    debounce_ms: Duration = 0
    debounce_max_ms: Duration = 0
    throttle_ms: Duration = 0
    if_revision: Annotated[int, Meta(ge=0, le=UINT32_MAX)] = 0
    retry: RetryShape | None = None
    lease_ms: Term = 0
    lease_rule: str = ""
    retake: bool = False
    hidden: bool = False
    timeout_ms: Duration = 0
    result_ttl_ms: Term = 0
    tags: Annotated[tuple[str, ...], Meta(max_length=TAGS_MAX)] = ()
    trace: Annotated[str, Meta(max_length=TRACE_MAX)] = ""
    repeat: str = ""
    parent: Id | None = None
    held: bool = False
    after: Annotated[tuple[Id, ...], Meta(max_length=AFTER_MAX)] = ()
    joins: bool = False
    on_failure: OnFailure | Literal[""] = ""
    callback: CallbackShape | None = None

    def new_job(self, encoding: Encoding) -> NewJob:
        return _new_job(self._payload(encoding), self._fields())

    def filled(self, encoding: Encoding) -> Filled:
        """The same; with others that differ by their payloads alone it shares what is made of the rest."""
        if self.id is not None or self.unique or self.after or self.callback is not None:
            return alone(self.new_job(encoding))  # there is no other like it
        payload = self._payload(encoding)
        return Filled(_form(self._fields()), payload)

    def _payload(self, encoding: Encoding) -> Blob:
        if self.payload is UNSET and self.payload_base64 is UNSET and self.payload_codec is UNSET:
            return NOTHING
        return read_payload(self.payload, self.payload_base64, self.payload_codec, encoding)

    def _fields(self) -> tuple[Any, ...]:
        """All but the payload: the fields of NewJob, in its order."""
        fields = msgspec.structs.astuple(self)
        return fields[:2] + fields[5:]


def _new_job(payload: Blob, fields: Sequence[Any]) -> NewJob:
    queue, name, *others = fields
    made = [queue, name, payload, *others]
    job_id, retry, parent, after, callback = _in_another_form(made)
    made[_ID] = b"" if job_id is None else parse_id(job_id)
    made[_RETRY] = ENDLESS if retry is None else Backoff(*msgspec.structs.astuple(retry))
    made[_PARENT] = b"" if parent is None else parse_id(parent)
    made[_AFTER] = tuple(map(parse_id, after))
    made[_CALLBACK] = None if callback is None else callback_of(callback)
    return NewJob(*made)


@lru_cache(FORMS_MAX)
def _form(fields: tuple[Any, ...]) -> Form:
    return Form(_new_job(NOTHING, fields))


class PlainJobShape(Shape, frozen=True, kw_only=True, gc=False):
    """A job as most of those are that come in long lists: read in half the time."""

    queue: QueueName
    name: Name
    payload: Value | UnsetType = UNSET


@lru_cache(FORMS_MAX)
def plain_form(queue: str, name: str) -> Form:
    """The form that the same job has as a NewJobShape."""
    return _form(NewJobShape(queue=queue, name=name)._fields())


def callback_of(shape: CallbackShape) -> Callback:
    return Callback(
        url=shape.url,
        type=shape.type,
        destination=shape.destination,
        events=shape.events,
        headers=tuple(shape.headers.items()),
    )


class JobShape(Given, frozen=True, kw_only=True):
    """A job as read at one instant."""

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
    trace: str
    repeat: str
    schedule: str
    planned_at_ms: int | None
    parent: Id | None
    is_held: bool
    joins: bool
    has_members: bool
    on_failure: OnFailure
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


def job_shape(job: Job, encoding: Encoding) -> JobShape:
    payload = write(job.payload, encoding) if job.payload_is_whole else write_bytes(job.payload)
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
        tags=job.tags,
        trace=job.trace,
        repeat=job.repeat,
        schedule=job.schedule,
        planned_at_ms=job.planned_at_ms,
        parent=id_or_none(job.parent),
        is_held=job.is_held,
        joins=job.joins,
        has_members=job.has_members,
        on_failure=job.on_failure,
        callback=None if job.callback is None else callback_shape(job.callback),
        attempt=job.attempt,
        revision=job.revision,
        progress=job.progress,
        note=job.note,
        is_cancel_requested=job.is_cancel_requested,
        is_overdue=job.is_overdue,
        is_history=job.is_history,
        worker=id_or_none(job.worker),
        lease_token=job.lease_token,
        lease_deadline_at_ms=job.lease_deadline_at_ms,
    )


def callback_shape(callback: Callback) -> CallbackShape:
    return CallbackShape(
        url=callback.url,
        type=callback.type,
        destination=callback.destination,
        events=callback.events,
        headers=dict(callback.headers),
    )


def id_or_none(job_id: bytes | None) -> str | None:
    return None if job_id is None else format_id(job_id)


class AttemptShape(Given, frozen=True, kw_only=True):
    """An attempt that did not end well."""

    attempt: int
    started_at_ms: int | None
    ended_at_ms: int
    worker: str | None
    reason: str
    error: Value | UnsetType = UNSET
    error_base64: str | UnsetType = UNSET
    error_codec: CodecName | UnsetType = UNSET


def attempt_shape(attempt: Attempt, encoding: Encoding) -> AttemptShape:
    error = write(attempt.error, encoding)
    return AttemptShape(
        attempt=attempt.attempt,
        started_at_ms=attempt.started_at_ms,
        ended_at_ms=attempt.ended_at_ms,
        worker=id_or_none(attempt.worker),
        reason=attempt.reason,
        error=error.value,
        error_base64=error.base64,
        error_codec=error.codec,
    )


class TimelineShape(Given, frozen=True, kw_only=True):
    """A job with the attempts that ended badly, oldest first."""

    job: JobShape
    attempts: list[AttemptShape]


def timeline_shape(timeline: Timeline, encoding: Encoding) -> TimelineShape:
    return TimelineShape(
        job=job_shape(timeline.job, encoding),
        attempts=[attempt_shape(one, encoding) for one in timeline.attempts],
    )


class Items(msgspec.Struct, Generic[T], frozen=True, forbid_unknown_fields=True):
    items: Annotated[list[T], Meta(max_length=ITEMS_MAX)]


class Outcome(msgspec.Struct, Generic[T], frozen=True, kw_only=True, gc=False):
    """Of one item: its answer, or why it was refused; the others have nothing to do with it."""

    ok: T | UnsetType = UNSET
    error: Problem | UnsetType = UNSET


class Results(msgspec.Struct, Generic[T], frozen=True):
    """In the order of the items."""

    results: list[Outcome[T]]


def results(answers: Sequence[A | Refusal], shaped: Callable[[A], T]) -> Results[T]:
    return Results(
        [Outcome(error=problem(one)) if isinstance(one, Refusal) else Outcome(ok=shaped(one)) for one in answers]
    )
