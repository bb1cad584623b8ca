"""What people and producers do about jobs that exist: cancel, retry, requeue, wake, edit, delete; one or many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from msgspec import UNSET

from windlass.core import errors
from windlass.core.errors import BadInput, Refusal
from windlass.core.operations import Edit
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import ADMIN, STEERS, Routes
from windlass.wire.job_admin import (
    CancelItem,
    CancelledShape,
    CancelShape,
    DeletedShape,
    DeleteItem,
    DeleteShape,
    EditedShape,
    EditItem,
    EditShape,
    EmptyShape,
    IdItem,
    RequeueItem,
    RequeueShape,
    RevivedShape,
    WokenShape,
    edited_shape,
)
from windlass.wire.values import decode_value

from .verbs import verb

routes = Routes("/api/v1", tag="Acting")

Pairs: TypeAlias = Sequence[tuple[bytes, Any]]
_ABSENT = (errors.UnknownJob, errors.AlreadyEnded)


async def _asked(pairs: Pairs, question: Callable[..., Any], options: Sequence[str], gives: Callable[..., Any]) -> Any:
    """One call for each set of options that is asked for: usually one. All are checked before the first is made."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for place, (_, shape) in enumerate(pairs):
        groups.setdefault(tuple(getattr(shape, option) for option in options), []).append(place)
    questions = [
        (places, question([pairs[place][0] for place in places], **dict(zip(options, values, strict=True))))
        for values, places in groups.items()
    ]
    answers: dict[int, Any] = {}
    for places, one_question in questions:
        answers |= zip(places, await one_question, strict=True)
    return [
        one if isinstance(one, Refusal) else gives(outcome=one)
        for one in (answers[place] for place in range(len(pairs)))
    ]


@verb(
    routes, "cancel", roles=STEERS, body=CancelShape, item=CancelItem, response=CancelledShape,
    refuses=(*_ABSENT, errors.TooLarge, errors.WrongState),
)  # fmt: skip
async def cancel(context: RequestContext[Any, Any], pairs: Pairs) -> list[Any]:
    """Cancel a job.

    `cancelled` at once when it waits; `requested` when it runs: its worker is told, and ends it. Its members are
    cancelled when it ends."""
    options = ("reason", "counts_waiting", "even_failed", "spares_running")
    return await _asked(pairs, context.service.cancel, options, CancelledShape)  # type: ignore[no-any-return]


@verb(
    routes, "retry", roles=ADMIN, body=EmptyShape, item=IdItem, response=RevivedShape, is_audited=True,
    refuses=(*_ABSENT, errors.WrongState, errors.UniqueConflict, errors.Unsettled, errors.LimitsChanged),
)  # fmt: skip
async def retry(context: RequestContext[Any, Any], pairs: Pairs) -> list[Any]:
    """Send a failed or cancelled job on its way again."""
    return await _asked(pairs, context.service.retry, (), RevivedShape)  # type: ignore[no-any-return]


@verb(
    routes, "requeue", roles=ADMIN, body=RequeueShape, item=RequeueItem, response=RevivedShape, is_audited=True,
    refuses=(*_ABSENT, errors.WrongState, errors.UniqueConflict, errors.Unsettled, errors.LimitsChanged),
)  # fmt: skip
async def requeue(context: RequestContext[Any, Any], pairs: Pairs) -> list[Any]:
    """Put a job back into its queue from any state; a lease on it ends."""
    return await _asked(pairs, context.service.requeue, ("gives_attempt_back",), RevivedShape)  # type: ignore[no-any-return]


@verb(
    routes, "wake", roles=ADMIN, body=EmptyShape, item=IdItem, response=WokenShape, is_audited=True,
    refuses=(*_ABSENT, errors.WrongState, errors.Unsettled),
)  # fmt: skip
async def wake(context: RequestContext[Any, Any], pairs: Pairs) -> list[Any]:
    """End the wait of a job now, whatever it waits for."""
    return await _asked(pairs, context.service.wake, (), WokenShape)  # type: ignore[no-any-return]


@verb(
    routes, "delete", method="DELETE", roles=ADMIN, body=DeleteShape, item=DeleteItem, response=DeletedShape,
    is_audited=True, refuses=(*_ABSENT, errors.WrongState),
)  # fmt: skip
async def delete(context: RequestContext[Any, Any], pairs: Pairs) -> list[Any]:
    """Remove a job and all that belongs to it."""
    return await _asked(pairs, context.service.delete, ("even_leased", "even_waiting"), DeletedShape)  # type: ignore[no-any-return]


def _edit(context: RequestContext[Any, Any], job_id: bytes, shape: EditShape) -> Edit:
    payload = decode_value("payload", shape.payload, shape.payload_base64, shape.payload_codec, context.body_encoding)
    if payload is None and all(one is UNSET for one in (shape.name, shape.priority, shape.run_at_ms, shape.repeat)):
        raise BadInput("This edit changes nothing; give a name, priority, run_at_ms, payload or repeat.")
    return Edit(
        id=job_id,
        name="" if shape.name is UNSET else shape.name,
        priority=None if shape.priority is UNSET else shape.priority,
        run_at_ms=None if shape.run_at_ms is UNSET else shape.run_at_ms,
        payload=payload,
        repeat=None if shape.repeat is UNSET else shape.repeat,
        if_revision=shape.if_revision,
        in_any_state=shape.in_any_state,
    )


@verb(
    routes, "edit", method="PATCH", roles=ADMIN, body=EditShape, item=EditItem, response=EditedShape, is_audited=True,
    refuses=(*_ABSENT, errors.WrongState, errors.RevisionConflict, errors.TooLarge, errors.LimitsChanged),
)  # fmt: skip
async def edit(context: RequestContext[Any, Any], pairs: Pairs) -> list[Any]:
    """Change a job that waits: its name, priority, time, payload or rule.

    With `if_revision` only as it was read: else the answer is `revision_conflict`, and nothing was changed."""
    answers = await context.service.edit([_edit(context, job_id, shape) for job_id, shape in pairs])
    return [one if isinstance(one, Refusal) else edited_shape(one) for one in answers]
