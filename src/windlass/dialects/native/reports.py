"""Routes of lease holders: accept, extend, progress, finish, fail, release, log and emit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET

from windlass.core import errors
from windlass.core.errors import Refusal
from windlass.core.event import Emit
from windlass.core.job import Timeline
from windlass.core.log import Log, LogLine
from windlass.core.operations import Fail, LeaseRef
from windlass.pauses import random_fraction
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import WORKERS, Routes
from windlass.wire.leases import (
    RECORDED,
    AcceptedShape,
    EmitItem,
    EmitShape,
    ExtendedShape,
    FailedShape,
    FailItem,
    FailShape,
    FinishedShape,
    FinishItem,
    FinishShape,
    LeaseItem,
    LeaseRefItem,
    LeaseRefShape,
    LeaseShape,
    LogItem,
    LogShape,
    ProgressItem,
    ProgressShape,
    RecordedShape,
    ReleasedShape,
    UpdatedShape,
    failed_shape,
    finished_shape,
)
from windlass.wire.values import decode_value

from .verbs import verb

routes = Routes("/api/v1", tag="Working")

_NO_LEASE = (errors.UnknownJob, errors.StaleLease, errors.AlreadyEnded, errors.WrongState)


async def _run_by_lease(pairs: Sequence[tuple[bytes, LeaseShape]], operation: Any) -> list[Any]:
    """Run one operation for each distinct length of the lease; usually there is one."""
    answers: dict[int, Any] = {}
    for lease_ms in dict.fromkeys(shape.lease_ms for _, shape in pairs):
        indexes = [index for index, (_, shape) in enumerate(pairs) if shape.lease_ms == lease_ms]
        leases = [LeaseRef(pairs[index][0], pairs[index][1].token) for index in indexes]
        answers |= zip(indexes, await operation(leases, lease_ms=lease_ms), strict=True)
    return [answers[index] for index in range(len(pairs))]


@verb(routes, "accept", roles=WORKERS, body=LeaseShape, item=LeaseItem, response=AcceptedShape, refuses=_NO_LEASE)
async def accept(context: RequestContext[Any, Any], pairs: Sequence[tuple[bytes, LeaseShape]]) -> list[Any]:
    """Accept a dispatched job: it runs from now on."""
    answers = await _run_by_lease(pairs, context.service.accept)
    return [answer if isinstance(answer, Refusal) else AcceptedShape(deadline_at_ms=answer) for answer in answers]


@verb(routes, "extend", roles=WORKERS, body=LeaseShape, item=LeaseItem, response=ExtendedShape, refuses=_NO_LEASE)
async def extend(context: RequestContext[Any, Any], pairs: Sequence[tuple[bytes, LeaseShape]]) -> list[Any]:
    """Extend a lease.

    A queue with `lease_renewal` off has fixed leases: the answer is the deadline as it is, and `fixed_for_ms`."""
    answers = await _run_by_lease(pairs, context.service.extend)
    return [
        answer
        if isinstance(answer, Refusal)
        else ExtendedShape(
            deadline_at_ms=answer.deadline_at_ms,
            is_cancel_requested=answer.is_cancel_requested,
            fixed_for_ms=UNSET if answer.fixed_for_ms is None else answer.fixed_for_ms,
        )
        for answer in answers
    ]


@verb(
    routes, "progress", roles=WORKERS, body=ProgressShape, item=ProgressItem, response=UpdatedShape,
    refuses=(*_NO_LEASE, errors.TooLarge),
)  # fmt: skip
async def progress(context: RequestContext[Any, Any], pairs: Sequence[tuple[bytes, ProgressShape]]) -> list[Any]:
    """Report progress, a note, or a new payload."""
    requests = [shape.update(job_id, context.body_encoding) for job_id, shape in pairs]
    return [
        answer
        if isinstance(answer, Refusal)
        else UpdatedShape(revision=answer.revision, is_cancel_requested=answer.is_cancel_requested)
        for answer in await context.service.update(requests)
    ]


@verb(
    routes, "finish", roles=WORKERS, body=FinishShape, item=FinishItem, response=FinishedShape,
    refuses=(*_NO_LEASE, errors.TooLarge, errors.Unsettled),
)  # fmt: skip
async def finish(context: RequestContext[Any, Any], pairs: Sequence[tuple[bytes, FinishShape]]) -> list[Any]:
    """Finish a job with its result."""
    requests = [shape.finish(job_id, context.body_encoding) for job_id, shape in pairs]
    return [finished_shape(answer) for answer in await context.service.finish(requests)]


async def build_failures(context: RequestContext[Any, Any], pairs: Sequence[tuple[bytes, FailShape]]) -> list[Fail]:
    """Convert reports of failure. Jobs with `auto` are read first, for their retry policy."""
    ids = [job_id for job_id, shape in pairs if shape.then == "auto"]
    found = dict(zip(ids, await context.service.job(ids), strict=True)) if ids else {}
    return [_build_failure(context, job_id, shape, found.get(job_id)) for job_id, shape in pairs]


def _build_failure(context: RequestContext[Any, Any], job_id: bytes, shape: FailShape, found: Any) -> Fail:
    then, delay_ms = shape.then, shape.delay_ms
    if then == "auto":
        then = "final"
        if isinstance(found, Timeline) and found.job.retry.wants_retry(found.job.attempt):
            then = "retry"
            delay_ms = delay_ms or found.job.retry.delay_ms(found.job.attempt, random_fraction())
    return Fail(
        id=job_id,
        token=shape.token,
        then=then,
        delay_ms=delay_ms if then == "retry" else 0,
        reason=shape.reason,
        error=decode_value("error", shape.error, shape.error_base64, shape.error_codec, context.body_encoding),
    )


@verb(
    routes, "fail", roles=WORKERS, body=FailShape, item=FailItem, response=FailedShape,
    refuses=(*_NO_LEASE, errors.TooLarge),
)  # fmt: skip
async def fail(context: RequestContext[Any, Any], pairs: Sequence[tuple[bytes, FailShape]]) -> list[Any]:
    """Fail an attempt: retry the job, fail it for good, or end it as cancelled."""
    return [failed_shape(answer) for answer in await context.service.fail(await build_failures(context, pairs))]


@verb(
    routes, "release", roles=WORKERS, body=LeaseRefShape, item=LeaseRefItem, response=ReleasedShape, refuses=_NO_LEASE
)
async def release(context: RequestContext[Any, Any], pairs: Sequence[tuple[bytes, LeaseRefShape]]) -> list[Any]:
    """Release a job without running it. The attempt does not count."""
    answers = await context.service.release([LeaseRef(job_id, shape.token) for job_id, shape in pairs])
    return [answer if isinstance(answer, Refusal) else ReleasedShape(state=answer) for answer in answers]


@verb(
    routes,
    "log",
    roles=WORKERS,
    body=LogShape,
    item=LogItem,
    response=RecordedShape,
    refuses=(*_NO_LEASE, errors.TooLarge),
)
async def log(context: RequestContext[Any, Any], pairs: Sequence[tuple[bytes, LogShape]]) -> list[Any]:
    """Append log lines to a job. The last lines are kept as long as the job."""
    requests = [
        Log(job_id, shape.token, [LogLine(line.at_ms, line.level, line.text) for line in shape.lines])
        for job_id, shape in pairs
    ]
    return [answer if isinstance(answer, Refusal) else RECORDED for answer in await context.service.log(requests)]


@verb(
    routes,
    "emit",
    roles=WORKERS,
    body=EmitShape,
    item=EmitItem,
    response=RecordedShape,
    refuses=(*_NO_LEASE, errors.TooLarge),
)
async def emit(context: RequestContext[Any, Any], pairs: Sequence[tuple[bytes, EmitShape]]) -> list[Any]:
    """Send a value to the followers of a job. Without followers it is not kept."""
    requests = [Emit(job_id, shape.token, _emitted_value(context, shape)) for job_id, shape in pairs]
    return [answer if isinstance(answer, Refusal) else RECORDED for answer in await context.service.emit(requests)]


def _emitted_value(context: RequestContext[Any, Any], shape: EmitShape) -> Any:
    value = decode_value("value", shape.value, shape.value_base64, shape.value_codec, context.body_encoding)
    if value is None:
        raise errors.BadInput("Give a value.")
    return value
