"""Those who hold jobs report: that they live, how far they are, how it ended, what they have to say."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from windlass.core import errors
from windlass.core.errors import Refusal
from windlass.core.event import Emit
from windlass.core.job import Timeline
from windlass.core.log import Log, LogLine
from windlass.core.operations import Fail, Finish, LeaseRef, Update
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import WORKS, Routes
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


async def _by_lease(
    context: RequestContext[Any, Any], pairs: Sequence[tuple[bytes, LeaseShape]], ask_for: Any
) -> list[Any]:
    """One call for each length of lease that is asked for: usually one."""
    answers: dict[int, Any] = {}
    for lease_ms in dict.fromkeys(shape.lease_ms for _, shape in pairs):
        places = [place for place, (_, shape) in enumerate(pairs) if shape.lease_ms == lease_ms]
        held = [LeaseRef(pairs[place][0], pairs[place][1].token) for place in places]
        answers |= zip(places, await ask_for(held, lease_ms=lease_ms), strict=True)
    return [answers[place] for place in range(len(pairs))]


@verb(routes, "accept", roles=WORKS, body=LeaseShape, item=LeaseItem, response=AcceptedShape, refuses=_NO_LEASE)
async def accept(context: RequestContext[Any, Any], pairs: Sequence[tuple[bytes, LeaseShape]]) -> list[Any]:
    """Accept a job that was only dispatched: from now on it runs."""
    answers = await _by_lease(context, pairs, context.service.accept)
    return [one if isinstance(one, Refusal) else AcceptedShape(deadline_at_ms=one) for one in answers]


@verb(routes, "extend", roles=WORKS, body=LeaseShape, item=LeaseItem, response=ExtendedShape, refuses=_NO_LEASE)
async def extend(context: RequestContext[Any, Any], pairs: Sequence[tuple[bytes, LeaseShape]]) -> list[Any]:
    """Extend a lease: a heartbeat."""
    return [
        one
        if isinstance(one, Refusal)
        else ExtendedShape(deadline_at_ms=one.deadline_at_ms, is_cancel_requested=one.is_cancel_requested)
        for one in await _by_lease(context, pairs, context.service.extend)
    ]


@verb(
    routes, "progress", roles=WORKS, body=ProgressShape, item=ProgressItem, response=UpdatedShape,
    refuses=(*_NO_LEASE, errors.TooLarge),
)  # fmt: skip
async def progress(context: RequestContext[Any, Any], pairs: Sequence[tuple[bytes, ProgressShape]]) -> list[Any]:
    """Report progress, a note, or a new payload."""
    requests = [
        Update(
            id=job_id,
            token=shape.token,
            progress=shape.progress,
            note=shape.note,
            payload=decode_value(
                "payload", shape.payload, shape.payload_base64, shape.payload_codec, context.body_encoding
            ),
        )
        for job_id, shape in pairs
    ]
    return [
        one
        if isinstance(one, Refusal)
        else UpdatedShape(revision=one.revision, is_cancel_requested=one.is_cancel_requested)
        for one in await context.service.update(requests)
    ]


def finish_of(context: RequestContext[Any, Any], job_id: bytes, shape: FinishShape) -> Finish:
    result = decode_value("result", shape.result, shape.result_base64, shape.result_codec, context.body_encoding)
    return Finish(job_id, shape.token, result, shape.ignore_repeat)


@verb(
    routes, "finish", roles=WORKS, body=FinishShape, item=FinishItem, response=FinishedShape,
    refuses=(*_NO_LEASE, errors.TooLarge, errors.Unsettled),
)  # fmt: skip
async def finish(context: RequestContext[Any, Any], pairs: Sequence[tuple[bytes, FinishShape]]) -> list[Any]:
    """Finish a job, with its result."""
    return [finished_shape(one) for one in await context.service.finish([finish_of(context, *pair) for pair in pairs])]


async def failures_of(context: RequestContext[Any, Any], pairs: Sequence[tuple[bytes, FailShape]]) -> list[Fail]:
    """What `auto` means is in the jobs: they are read first."""
    wanted = [job_id for job_id, shape in pairs if shape.then == "auto"]
    found = dict(zip(wanted, await context.service.job(wanted), strict=True)) if wanted else {}
    return [_failure(context, job_id, shape, found.get(job_id)) for job_id, shape in pairs]


def _failure(context: RequestContext[Any, Any], job_id: bytes, shape: FailShape, found: Any) -> Fail:
    then, delay_ms = shape.then, shape.delay_ms
    if then == "auto":
        then = "final"
        if isinstance(found, Timeline) and found.job.retry.wants_retry(found.job.attempt):
            then = "retry"
            delay_ms = delay_ms or found.job.retry.delay_ms(found.job.attempt, random.random())  # noqa: S311
    return Fail(
        id=job_id,
        token=shape.token,
        then=then,
        delay_ms=delay_ms if then == "retry" else 0,
        reason=shape.reason,
        error=decode_value("error", shape.error, shape.error_base64, shape.error_codec, context.body_encoding),
    )


@verb(
    routes, "fail", roles=WORKS, body=FailShape, item=FailItem, response=FailedShape,
    refuses=(*_NO_LEASE, errors.TooLarge),
)  # fmt: skip
async def fail(context: RequestContext[Any, Any], pairs: Sequence[tuple[bytes, FailShape]]) -> list[Any]:
    """End an attempt badly: to be retried, for good, or as cancelled."""
    return [failed_shape(one) for one in await context.service.fail(await failures_of(context, pairs))]


@verb(routes, "release", roles=WORKS, body=LeaseRefShape, item=LeaseRefItem, response=ReleasedShape, refuses=_NO_LEASE)
async def release(context: RequestContext[Any, Any], pairs: Sequence[tuple[bytes, LeaseRefShape]]) -> list[Any]:
    """Give a job back unworked; no attempt is spent."""
    answers = await context.service.release([LeaseRef(job_id, shape.token) for job_id, shape in pairs])
    return [one if isinstance(one, Refusal) else ReleasedShape(state=one) for one in answers]


# What running code says


@verb(
    routes,
    "log",
    roles=WORKS,
    body=LogShape,
    item=LogItem,
    response=RecordedShape,
    refuses=(*_NO_LEASE, errors.TooLarge),
)
async def log(context: RequestContext[Any, Any], pairs: Sequence[tuple[bytes, LogShape]]) -> list[Any]:
    """Leave lines with a job: the last ones are kept as long as the job is."""
    requests = [
        Log(job_id, shape.token, [LogLine(line.at_ms, line.level, line.text) for line in shape.lines])
        for job_id, shape in pairs
    ]
    return [one if isinstance(one, Refusal) else RECORDED for one in await context.service.log(requests)]


@verb(
    routes,
    "emit",
    roles=WORKS,
    body=EmitShape,
    item=EmitItem,
    response=RecordedShape,
    refuses=(*_NO_LEASE, errors.TooLarge),
)
async def emit(context: RequestContext[Any, Any], pairs: Sequence[tuple[bytes, EmitShape]]) -> list[Any]:
    """Send a value to those who follow the job; nothing is kept when nobody does."""
    requests = [Emit(job_id, shape.token, _emitted(context, shape)) for job_id, shape in pairs]
    return [one if isinstance(one, Refusal) else RECORDED for one in await context.service.emit(requests)]


def _emitted(context: RequestContext[Any, Any], shape: EmitShape) -> Any:
    value = decode_value("value", shape.value, shape.value_base64, shape.value_codec, context.body_encoding)
    if value is None:
        raise errors.BadInput("Give a value.")
    return value
