"""Shapes of pending callbacks and of callbacks whose delivery was given up."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import UNSET, Meta, UnsetType

from windlass.core.callbacks.callback import CALLBACKS_MAX, PendingCallback, parse_pending_callback_id
from windlass.core.ids import parse_id
from windlass.core.validation.bounds import CURSOR_MAX

from .encoding import Encoding
from .jobs import AttemptShape, JobShape, attempt_shape, job_shape
from .new_job import CallbackShape, callback_shape
from .shape import RequestShape, ResponseShape, component_name
from .values import CodecName, Value, encode_value

PendingCallbackId: TypeAlias = Annotated[
    str, Meta(description="The id of a callback: the id of its job, and a number.", max_length=64)
]


@component_name("DebtShape")
class PendingCallbackShape(ResponseShape, frozen=True, kw_only=True):
    """A callback of a job that ended. It outlives the job."""

    id: PendingCallbackId
    job: Annotated[JobShape, Meta(description="The job at its end.")]
    callback: CallbackShape
    result: Value | UnsetType = UNSET
    result_base64: str | UnsetType = UNSET
    result_codec: CodecName | UnsetType = UNSET
    is_result_too_big: bool
    last_attempt: AttemptShape | None
    attempt: Annotated[int, Meta(description="Deliveries started so far.")]
    error: Annotated[str, Meta(description="Why the last delivery failed.")]
    due_at_ms: Annotated[
        int | None, Meta(description="When a pending callback is delivered next; null if it was given up.")
    ]
    removed_at_ms: Annotated[
        int | None, Meta(description="When a callback that was given up is removed; null while it is pending.")
    ]


@component_name("DebtsShape")
class PendingCallbacksShape(ResponseShape, frozen=True, kw_only=True):
    callbacks: list[PendingCallbackShape]
    cursor: Annotated[str, Meta(description="The cursor of the next page; empty on the last page.")]


class PendingCallbacksQuery(RequestShape, frozen=True, kw_only=True):
    given_up: Annotated[bool, Meta(description="List callbacks that were given up, not the pending ones.")] = False
    most: Annotated[int, Meta(ge=1, le=CALLBACKS_MAX)] = 50
    cursor: Annotated[str, Meta(max_length=CURSOR_MAX)] = ""


def pending_callback_shape(callback: PendingCallback, encoding: Encoding) -> PendingCallbackShape:
    result = encode_value(callback.result, encoding)
    return PendingCallbackShape(
        id=callback.key,
        job=job_shape(callback.job, encoding),
        callback=callback_shape(callback.callback),
        result=result.value,
        result_base64=result.base64,
        result_codec=result.codec,
        is_result_too_big=callback.is_result_too_big,
        last_attempt=None if callback.last_attempt is None else attempt_shape(callback.last_attempt, encoding),
        attempt=callback.attempt,
        error=callback.error,
        due_at_ms=callback.due_at_ms,
        removed_at_ms=callback.removed_at_ms,
    )


class JobCallbacksShape(ResponseShape, frozen=True, kw_only=True):
    """Callbacks of one job. Pending callbacks have `due_at_ms`, callbacks that were given up have `removed_at_ms`.
    Delivered callbacks are not kept."""

    callbacks: list[PendingCallbackShape]
    is_all: Annotated[bool, Meta(description="False if there are too many callbacks, of all jobs, to examine each.")]


@component_name("DebtItemShape")
class CallbackItemShape(RequestShape, frozen=True, kw_only=True):
    id: Annotated[
        str, Meta(description="The id of a callback, or of a job: all its callbacks that were given up.", max_length=64)
    ]


@component_name("OwedShape")
class RedeliveredShape(ResponseShape, frozen=True, kw_only=True):
    status: str


def parse_callback_or_job_id(text: str) -> bytes:
    return parse_pending_callback_id(text) if text.count("-") == 5 else parse_id(text)
