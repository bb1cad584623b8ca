"""Page of a signed link: a person without a token answers a job that waits for a signal. GET changes nothing, because
mail scanners follow links."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from windlass.core.access.audit import DONE
from windlass.core.access.signal_links import SignalLink, occurrence_of
from windlass.core.durable import SIGNAL_VALUE_MAX, OpenWaits, Signal
from windlass.core.errors import AlreadyEnded, BadInput, Refusal, UnknownJob, WindlassError
from windlass.core.ids import format_id
from windlass.core.job import Blob, Job
from windlass.core.text.codecs import compact_json
from windlass.dashboard.forms.schema_form import INPUTS_MAX, SchemaForm, make_form, read_inputs
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.rendering import HTML, render_page
from windlass.dashboard.routes import FORM, DashboardRoutes, engine_timeout
from windlass.web.app.audit import write_audit_entry
from windlass.web.app.query_parser import parse_query
from windlass.web.app.request_context import RequestContext
from windlass.web.listener.messages import Response
from windlass.wire.problems import HttpRefusal, status_for

routes = DashboardRoutes()

BODY_MAX = 4 * SIGNAL_VALUE_MAX  # a form is percent-encoded
_FIELDS_MAX = 10 + INPUTS_MAX
_TEMPLATE = "signal_link.html"
_SENT = {"received": "The job continues with your answer.", "kept": "The job gets your answer when it asks for it."}


class UnknownLink(HttpRefusal):
    code = "unknown_link"
    status = 404
    sentence = "This link is not valid. Check that it was copied completely."


class LinkExpired(HttpRefusal):
    code = "link_expired"
    status = 410
    sentence = "This link has expired. Ask its sender for a new one."


class LinkUsed(HttpRefusal):
    code = "link_used"
    status = 409
    sentence = "This link was already used. The first answer counts; nothing was changed."


class LinkOutdated(HttpRefusal):
    code = "link_outdated"
    status = 410
    sentence = "The job has ended and no longer needs an answer."


class AnswerForm(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of a person: one of two buttons, a typed value, or the inputs of a form that is made from a schema."""

    kind: Literal["yes", "no", "text", "number", "json"] = "json"
    value: str = ""
    schema: str = ""
    input: tuple[str, ...] = ()


class LinkView(msgspec.Struct, frozen=True, kw_only=True):
    """The form, or without a link the outcome."""

    title: str
    message: str = ""
    error: str = ""
    link: SignalLink | None = None
    job: Job | None = None
    form: AnswerForm = AnswerForm()
    typed: SchemaForm | None = None  # None: the type is not known


@routes.page("/signals/{link}", _TEMPLATE, section="signal", roles=None)
async def signal_link(page: PageContext[None]) -> LinkView | Response:
    """Show the form of a signed link."""
    try:
        link, job = await _read(page)
    except Refusal as refusal:
        return _refuse(page, refusal)
    return await _form_view(page, link, job, AnswerForm(kind="text"))


async def _answer(context: RequestContext[None, None]) -> Response:
    """Send the signal of a signed link, once."""
    page: PageContext[None] = PageContext(context.state, context.request.head, context, "signal")
    async with engine_timeout():
        try:
            link, job = await _read(page)
        except Refusal as refusal:
            return _refuse(page, refusal)
        form = AnswerForm(kind="text")
        try:
            form = parse_query(context.request.body.decode(errors="replace"), AnswerForm, _FIELDS_MAX)
            value = _value_of(form)
        except BadInput as error:
            view = await _form_view(page, link, job, form, str(error))
            return render_page(_TEMPLATE, view, page, status=400)
        return await _send(page, link, value)


async def _read(page: PageContext[None]) -> tuple[SignalLink, Job]:
    """Return a link that is still good, and its job."""
    link = await page.service.read_signal_link(page.path_values["link"])
    if link is None:
        raise UnknownLink
    page.now_ms = await page.service.now()
    if link.expires_at_ms <= page.now_ms:
        raise LinkExpired
    try:
        job = (await page.service.job([link.job_id]).one()).job
    except (UnknownJob, AlreadyEnded):
        raise LinkOutdated from None
    if job.state.is_ended or occurrence_of(job) != link.occurrence_at_ms:
        raise LinkOutdated
    return link, job


async def _send(page: PageContext[None], link: SignalLink, value: Blob) -> Response:
    context, outcome = page.context, "unknown"
    context.audit_target, context.audit_detail = format_id(link.job_id), f"{link.signal}, by a signed URL"
    signal = Signal(
        id=link.job_id,
        name=link.signal,
        value=value,
        request_id=link.request_id,
        occurrence_at_ms=link.occurrence_at_ms,
        is_one_time=True,
    )
    try:
        sent = await page.service.signal([signal]).one()
        if sent == "repeated":
            raise LinkUsed
        outcome = DONE
    except WindlassError as error:
        outcome = error.code
        if isinstance(error, Refusal):
            return _refuse(page, error)
        raise
    finally:
        await write_audit_entry(context, "signal", outcome)
    return render_page(_TEMPLATE, LinkView(title="Answer sent", message=_SENT[sent]), page)


def _refuse(page: PageContext[Any], refusal: Refusal) -> Response:
    title = "Already answered" if isinstance(refusal, LinkUsed) else "Not possible"
    return render_page(_TEMPLATE, LinkView(title=title, message=str(refusal)), page, status=status_for(refusal))


async def _form_view(
    page: PageContext[None], link: SignalLink, job: Job, form: AnswerForm, error: str = ""
) -> LinkView:
    schema = Blob(form.schema.encode()) if form.schema else await _schema_of(page, link)
    return LinkView(title="Answer a job", error=error, link=link, job=job, form=form, typed=make_form(schema))


async def _schema_of(page: PageContext[None], link: SignalLink) -> Blob | None:
    """Return the schema of the awaited signal. None: the job does not wait for it now, or the type is not known."""
    (waits,) = await page.service.open_waits([link.job_id])
    steps = waits.steps if isinstance(waits, OpenWaits) else ()
    return next((step.schema for step in steps if step.signal == link.signal and step.schema is not None), None)


def _value_of(form: AnswerForm) -> Blob:
    """Return the answer as JSON."""
    if form.schema:
        return read_inputs(form.schema, form.input)
    if form.kind in ("yes", "no"):
        return Blob(b"true" if form.kind == "yes" else b"false")
    if form.kind == "text":
        return Blob(msgspec.json.encode(form.value))
    try:
        typed = compact_json(form.value.strip().encode())
        is_number = isinstance(msgspec.json.decode(typed), int | float) and typed not in (b"true", b"false")
    except ValueError as error:
        raise BadInput(f"The value is not JSON: {error}. Texts need quotes, or choose “Text”.") from error
    if form.kind == "number" and not is_number:
        raise BadInput("The value is not a number.")
    return Blob(typed)


routes.post(
    "/signals/{link}", operation="answer_signal_link", roles=None, body_media=FORM, response_media=HTML,
    is_listed=False, is_page=True, body_max=BODY_MAX,
)(_answer)  # fmt: skip
