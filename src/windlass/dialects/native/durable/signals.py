"""Routes of people and programs to durable jobs: send a signal, drop steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from windlass.core import errors
from windlass.core.errors import Refusal
from windlass.core.ids import format_id
from windlass.dialects.native.verbs import verb
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import ADMINS, JOB_CONTROLLERS, Routes
from windlass.wire.durable.signals import (
    RewindItem,
    RewindShape,
    RewoundShape,
    SignalItem,
    SignalledShape,
    SignalShape,
    SignalUrlShape,
    SignedUrlShape,
)

routes = Routes("/api/v1", tag="Acting")

_ABSENT = (errors.UnknownJob, errors.AlreadyEnded)


@verb(
    routes, "signals", operation="signal", roles=JOB_CONTROLLERS, body=SignalShape, item=SignalItem,
    response=SignalledShape, is_audited=True,
    refuses=(*_ABSENT, errors.WrongState, errors.TooLarge, errors.MailboxFull, errors.StepsFull),
)  # fmt: skip
async def signal(context: RequestContext[Any, Any], pairs: Sequence[tuple[bytes, SignalShape]]) -> list[Any]:
    """Send a signal to a job that has not ended.

    `received`: the job waits for it and continues. `kept`: the job gets it when it asks for it; signals of one name are
    received in the order in which they were sent. `repeated`: the `request_id` was used before, nothing changed."""
    context.audit_detail = _distinct(shape.name for _, shape in pairs)
    requests = [shape.signal(job_id, context.body_encoding) for job_id, shape in pairs]
    answers = await context.service.signal(requests)
    return [answer if isinstance(answer, Refusal) else SignalledShape(outcome=answer) for answer in answers]


@verb(
    routes, "rewind", roles=ADMINS, body=RewindShape, item=RewindItem, response=RewoundShape, is_audited=True,
    refuses=(errors.UnknownJob, errors.AlreadyEnded, errors.WrongState, errors.UnknownStep),
)  # fmt: skip
async def rewind(context: RequestContext[Any, Any], pairs: Sequence[tuple[bytes, RewindShape]]) -> list[Any]:
    """Drop a step of a job and all steps that were stored after it; without a step, drop all.

    The job stays where it is. Retry or requeue it to run it again from this step. A job that a worker holds is refused
    with `wrong_state`."""
    context.audit_detail = _distinct(shape.step for _, shape in pairs)
    answers = await context.service.rewind([shape.rewind(job_id) for job_id, shape in pairs])
    return [answer if isinstance(answer, Refusal) else RewoundShape(dropped=answer) for answer in answers]


@routes.post(
    "/jobs/{id}/signal-url",
    roles=JOB_CONTROLLERS,
    body=SignalUrlShape,
    response=SignedUrlShape,
    is_audited=True,
    refuses=(*_ABSENT, errors.BadSetting),
)
async def signal_url(context: RequestContext[SignalUrlShape, None]) -> SignedUrlShape:
    """Create a URL by which a person sends one signal to a job, without a token.

    GET shows a form and changes nothing; POST sends the signal, once. The URL is valid for this signal of this
    occurrence of the job until it expires. Everybody who has the URL can use it."""
    job_id, body = context.job_id, context.body
    context.audit_target, context.audit_detail = format_id(job_id), body.signal
    await context.check_jobs([job_id])
    base = _public_base(context)
    made = await context.service.signal_link(job_id, body.signal, expires_in_ms=body.expires_in_ms)
    return SignedUrlShape(url=f"{base}/signals/{made.token}", token=made.token, expires_at_ms=made.expires_at_ms)


def _public_base(context: RequestContext[Any, Any]) -> str:
    """Return the address of the pages: as the settings say, else as the client has named this server."""
    settings, head = context.state.settings, context.request.head
    if not settings.dashboard:
        raise errors.BadSetting("The page of a signal URL belongs to the dashboard, which is off (setting dashboard).")
    if settings.public_url:
        return settings.public_url.rstrip("/")
    is_tls = context.request.client.is_tls or head.headers.get("x-forwarded-proto", "") == "https"
    return f"{'https' if is_tls else 'http'}://{head.headers.get('host', '')}{head.base}"


def _distinct(names: Iterable[str]) -> str:
    """Format names for the audit log, each once. The log cuts long texts."""
    return ", ".join(dict.fromkeys(name for name in names if name))
