"""Callbacks that are owed, or were given up: people look, and send them on their way again."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import UNSET, Meta, UnsetType

from windlass.core.callbacks.callback import CALLBACKS_MAX, Debt, parse_debt_id
from windlass.core.ids import parse_id
from windlass.core.validation.bounds import CURSOR_MAX
from windlass.web.app.encoding import Encoding
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import ADMIN, KNOWS, READS, Routes

from .shapes import (
    AttemptShape,
    CallbackShape,
    Given,
    Items,
    JobShape,
    Results,
    Shape,
    attempt_shape,
    callback_shape,
    job_shape,
    results,
)
from .values import CodecName, Value, write

routes = Routes("/api/v1", tag="Callbacks")

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


def _debt(debt: Debt, encoding: Encoding) -> DebtShape:
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


@routes.get("/callbacks", roles=READS, query=DebtsQuery, response=DebtsShape)
async def callbacks(context: RequestContext[None, DebtsQuery]) -> DebtsShape:
    """Callbacks that are owed, the next due first; or those that were given up, the oldest first."""
    context.check_all_queues()
    query = context.query
    page = await context.service.callbacks(given_up=query.given_up, most=query.most, cursor=query.cursor)
    return DebtsShape(callbacks=[_debt(one, context.response_encoding) for one in page.debts], cursor=page.cursor)


class JobCallbacksShape(Given, frozen=True, kw_only=True):
    """Owed ones have `due_at_ms`, those that were given up `removed_at_ms`. What was delivered is gone."""

    callbacks: list[DebtShape]
    is_all: Annotated[bool, Meta(description="False: there are too many callbacks of all jobs to look at each.")]


@routes.get("/jobs/{id}/callbacks", roles=KNOWS, response=JobCallbacksShape)
async def job_callbacks(context: RequestContext[None, None]) -> JobCallbacksShape:
    """Callbacks of a job that are owed or were given up; they may outlive the job."""
    job_id = context.job_id
    await context.check_jobs([job_id])
    found = await context.service.job_callbacks(job_id)
    for debt in found.debts:  # the job itself may have gone
        context.check_found(debt.job.queue)
    return JobCallbacksShape(
        callbacks=[_debt(one, context.response_encoding) for one in found.debts], is_all=found.is_all
    )


class DebtItemShape(Shape, frozen=True, kw_only=True):
    id: Annotated[
        str, Meta(description="The id of a callback, or of a job: of all that were given up of it.", max_length=64)
    ]


class OwedShape(Given, frozen=True, kw_only=True):
    status: str


@routes.post(
    "/callbacks:redeliver", roles=ADMIN, body=Items[DebtItemShape], response=Results[OwedShape], is_audited=True
)
async def redeliver(context: RequestContext[Items[DebtItemShape], None]) -> Results[OwedShape]:
    """Callbacks that were given up are due at once, with all attempts anew.

    With the ids that GET /callbacks shows, or those of jobs."""
    context.check_all_queues()
    ids = [_id(item.id) for item in context.body.items]
    context.audit_target, context.audit_detail = "", f"{len(ids)} callbacks"
    return results(await context.service.redeliver(ids), lambda status: OwedShape(status=status))


def _id(text: str) -> bytes:
    return parse_debt_id(text) if text.count("-") == 5 else parse_id(text)
