"""Routes that change existing jobs: cancel, retry, requeue, wake, delete and edit, for one job or a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from windlass.core import errors
from windlass.core.errors import Refusal
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import ADMINS, JOB_CONTROLLERS, Routes
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
    RetryItem,
    RetryOptionsShape,
    RevivedShape,
    WokenShape,
    edited_shape,
)

from .verbs import verb

routes = Routes("/api/v1", tag="Acting")

Pairs: TypeAlias = Sequence[tuple[bytes, Any]]
_ABSENT = (errors.UnknownJob, errors.AlreadyEnded)


async def _run_grouped(
    pairs: Pairs, operation: Callable[..., Any], options: Sequence[str], response: Callable[..., Any]
) -> Any:
    """Run one operation for each distinct set of options; usually there is one set. All operations are validated before
    the first runs."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for index, (_, shape) in enumerate(pairs):
        groups.setdefault(tuple(getattr(shape, option) for option in options), []).append(index)
    operations = [
        (indexes, operation([pairs[index][0] for index in indexes], **dict(zip(options, values, strict=True))))
        for values, indexes in groups.items()
    ]
    answers: dict[int, Any] = {}
    for indexes, pending in operations:
        answers |= zip(indexes, await pending, strict=True)
    return [
        answer if isinstance(answer, Refusal) else response(outcome=answer)
        for answer in (answers[index] for index in range(len(pairs)))
    ]


@verb(
    routes, "cancel", roles=JOB_CONTROLLERS, body=CancelShape, item=CancelItem, response=CancelledShape,
    refuses=(*_ABSENT, errors.TooLarge, errors.WrongState),
)  # fmt: skip
async def cancel(context: RequestContext[Any, Any], pairs: Pairs) -> list[Any]:
    """Cancel a job.

    `cancelled`: the job waited and is cancelled now. `requested`: the job runs; its worker is asked to stop it. Members
    of the job are cancelled when it ends."""
    options = ("reason", "counts_waiting", "even_failed", "spares_running")
    return await _run_grouped(pairs, context.service.cancel, options, CancelledShape)  # type: ignore[no-any-return]


@verb(
    routes, "retry", roles=ADMINS, body=RetryOptionsShape, item=RetryItem, response=RevivedShape, is_audited=True,
    refuses=(
        *_ABSENT, errors.WrongState, errors.UniqueConflict, errors.MemberFailed, errors.Unsettled, errors.LimitsChanged,
    ),
)  # fmt: skip
async def retry(context: RequestContext[Any, Any], pairs: Pairs) -> list[Any]:
    """Retry a failed or cancelled job.

    Jobs that ended because of it wait for it again. A job that ended because of another job is refused with
    `member_failed`: retry that other job, or resume the flow. Stored steps are kept, except those that failed or timed
    out; with `fresh`, all steps are dropped."""
    return await _run_grouped(pairs, context.service.retry, ("fresh",), RevivedShape)  # type: ignore[no-any-return]


@verb(
    routes, "requeue", roles=ADMINS, body=RequeueShape, item=RequeueItem, response=RevivedShape, is_audited=True,
    refuses=(*_ABSENT, errors.WrongState, errors.UniqueConflict, errors.Unsettled, errors.LimitsChanged),
)  # fmt: skip
async def requeue(context: RequestContext[Any, Any], pairs: Pairs) -> list[Any]:
    """Put a job back into its queue from any state. A lease on it ends."""
    return await _run_grouped(pairs, context.service.requeue, ("gives_attempt_back",), RevivedShape)  # type: ignore[no-any-return]


@verb(
    routes, "wake", roles=ADMINS, body=EmptyShape, item=IdItem, response=WokenShape, is_audited=True,
    refuses=(*_ABSENT, errors.WrongState, errors.Unsettled),
)  # fmt: skip
async def wake(context: RequestContext[Any, Any], pairs: Pairs) -> list[Any]:
    """End the wait of a job now."""
    return await _run_grouped(pairs, context.service.wake, (), WokenShape)  # type: ignore[no-any-return]


@verb(
    routes, "delete", method="DELETE", roles=ADMINS, body=DeleteShape, item=DeleteItem, response=DeletedShape,
    is_audited=True, refuses=(*_ABSENT, errors.WrongState),
)  # fmt: skip
async def delete(context: RequestContext[Any, Any], pairs: Pairs) -> list[Any]:
    """Delete a job and all its data."""
    return await _run_grouped(pairs, context.service.delete, ("even_leased", "even_waiting"), DeletedShape)  # type: ignore[no-any-return]


@verb(
    routes, "edit", method="PATCH", roles=ADMINS, body=EditShape, item=EditItem, response=EditedShape, is_audited=True,
    refuses=(*_ABSENT, errors.WrongState, errors.RevisionConflict, errors.TooLarge, errors.LimitsChanged),
)  # fmt: skip
async def edit(context: RequestContext[Any, Any], pairs: Pairs) -> list[Any]:
    """Edit a waiting job: its name, priority, time, payload or repeat rule.

    With `if_revision`, a job that has another revision is refused with `revision_conflict` and not changed."""
    answers = await context.service.edit([shape.edit(job_id, context.body_encoding) for job_id, shape in pairs])
    return [answer if isinstance(answer, Refusal) else edited_shape(answer) for answer in answers]
