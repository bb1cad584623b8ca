"""Shapes of pending callbacks and of callbacks whose delivery was given up."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import UNSET, Meta, UnsetType

from windlass.core.callbacks.callback import CALLBACKS_MAX, PendingCallback, parse_pending_callback_id
from windlass.core.ids import parse_id
from windlass.core.validation.bounds import CURSOR_MAX

from .encoding import Encoding
from .fields import Given, Shape
from .jobs import AttemptShape, JobShape, attempt_shape, job_shape
from .new_job import CallbackShape, callback_shape
from .values import CodecName, Value, write

DebtId: TypeAlias = Annotated[
    str, Meta(description="The id of a callback: that of its job, and a number.", max_length=64)
]


class DebtShape(Given, frozen=True, kw_only=True):
    """One callback of one end of a job. It survives the job."""

    id: DebtId
    job: Annotated[JobShape, Meta(description="As it ended.")]
    callback: CallbackShape
    result: Value | UnsetType = UNSET
    result_base64: str | UnsetType = UNSET
    result_codec: CodecName | UnsetType = UNSET
    is_result_too_big: bool
    last_attempt: AttemptShape | None
    attempt: Annotated[int, Meta(description="Deliveries begun so far.")]
    error: Annotated[str, Meta(description="Why the last delivery failed.")]
    due_at_ms: Annotated[int | None, Meta(description="Of one that is owed.")]
    removed_at_ms: Annotated[int | None, Meta(description="Of one that was given up: when it is forgotten.")]


class DebtsShape(Given, frozen=True, kw_only=True):
    callbacks: list[DebtShape]
    cursor: Annotated[str, Meta(description="Of the next page; empty at the end.")]


class DebtsQuery(Shape, frozen=True, kw_only=True):
    given_up: Annotated[bool, Meta(description="Those that nobody tries to deliver any more.")] = False
    most: Annotated[int, Meta(ge=1, le=CALLBACKS_MAX)] = 50
    cursor: Annotated[str, Meta(max_length=CURSOR_MAX)] = ""


def _debt(debt: PendingCallback, encoding: Encoding) -> DebtShape:
    result = write(debt.result, encoding)
    return DebtShape(
        id=debt.key,
        job=job_shape(debt.job, encoding),
        callback=callback_shape(debt.callback),
        result=result.value,
        result_base64=result.base64,
        result_codec=result.codec,
        is_result_too_big=debt.is_result_too_big,
        last_attempt=None if debt.last_attempt is None else attempt_shape(debt.last_attempt, encoding),
        attempt=debt.attempt,
        error=debt.error,
        due_at_ms=debt.due_at_ms,
        removed_at_ms=debt.removed_at_ms,
    )


class JobCallbacksShape(Given, frozen=True, kw_only=True):
    """Owed ones have `due_at_ms`, those that were given up `removed_at_ms`. What was delivered is gone."""

    callbacks: list[DebtShape]
    is_all: Annotated[bool, Meta(description="False: there are too many callbacks of all jobs to look at each.")]


class DebtItemShape(Shape, frozen=True, kw_only=True):
    id: Annotated[
        str, Meta(description="The id of a callback, or of a job: of all that were given up of it.", max_length=64)
    ]


class OwedShape(Given, frozen=True, kw_only=True):
    status: str


def _id(text: str) -> bytes:
    return parse_pending_callback_id(text) if text.count("-") == 5 else parse_id(text)
