"""Actions on durable jobs: send a signal, run again from a step, retry without the stored steps."""

from __future__ import annotations

from typing import Any

from windlass.core.durable import Rewind, Signal
from windlass.core.errors import BadInput, TooLarge, WindlassError
from windlass.core.ids import parse_id
from windlass.core.job import Blob
from windlass.core.states import State
from windlass.core.text.codecs import compact_json
from windlass.core.text.humanize import pluralize, shorten
from windlass.dashboard.forms.schema_form import read_inputs
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.pages.job import view_job
from windlass.dashboard.rendering import render_page
from windlass.dashboard.routes import ActionResult, DashboardRoutes, Form
from windlass.dashboard.views.durable_steps import SignalDraft
from windlass.web.app.router import JOB_CONTROLLERS
from windlass.web.listener.messages import Response
from windlass.wire.problems import status_for

routes = DashboardRoutes()

NAME_SHOWN = 100  # characters of a name in a sentence
_RETRIED = frozenset({State.FAILED, State.CANCELLED})
_REQUEUED = frozenset({State.SUSPENDED, State.SCHEDULED, State.FINISHED})


class SignalForm(Form, frozen=True, kw_only=True):
    id: str = ""
    signal: str = ""
    request_id: str = ""  # hexadecimal
    answer: str = ""  # JSON of a button; empty: the typed value counts
    value: str = ""
    schema: str = ""  # of a form with several inputs
    input: tuple[str, ...] = ()


async def _show_again(page: PageContext[Any], form: SignalForm, error: WindlassError) -> Response:
    """Show the job with the typed value and the error. A token without `read` must not see the job."""
    if not isinstance(error, BadInput | TooLarge) or not page.may_see("read"):
        raise error
    draft = SignalDraft(form.signal, form.value, str(error), form.input)
    view = await view_job(page, parse_id(form.id), draft=draft)
    page.section, page.shown_path = "jobs", page.link("jobs", form.id)
    return render_page("job.html", view, page, status=status_for(error))


@routes.action("send-signal", SignalForm, roles=JOB_CONTROLLERS, on_error=_show_again)
async def send_signal(page: PageContext[None], form: SignalForm) -> ActionResult:
    """Send a signal to a job that waits for it."""
    job_id = parse_id(form.id)
    page.context.audit_target, page.context.audit_detail = form.id, form.signal
    await page.context.check_jobs([job_id])
    value = read_inputs(form.schema, form.input) if form.schema else _read_value(form.answer or form.value)
    request = Signal(id=job_id, name=form.signal, value=value, request_id=_read_request_id(form.request_id))
    outcome = await page.service.signal([request]).one()
    name = shorten(form.signal, NAME_SHOWN)
    if outcome == "repeated":
        return ActionResult(f"This form was sent before: {name} was not sent a second time.", kind="bad")
    if outcome == "kept":
        return ActionResult(f"Sent {name}. The job does not wait for it now; it is kept until the job asks for it.")
    return ActionResult(f"Sent {name}: the job continues with it.")


def _read_value(text: str) -> Blob:
    if not text.strip():
        raise BadInput('The value is missing. Type JSON, for example true, 5 or "yes".')
    try:
        return Blob(compact_json(text.strip().encode()))
    except ValueError as error:
        raise BadInput(f"The value is not JSON: {error}. Texts need quotes.") from error


def _read_request_id(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise BadInput("request_id must be hexadecimal.") from error


class RewindForm(Form, frozen=True, kw_only=True):
    id: str = ""
    step: str = ""

    @property
    def question(self) -> str:
        return (
            f"Run this job again from step {shorten(self.step, NAME_SHOWN)}? The values of this step and of all steps "
            "stored after it are dropped, and their work is repeated."
        )


@routes.action("rewind-job", RewindForm, confirm=lambda form: form.question)
async def rewind_job(page: PageContext[None], form: RewindForm) -> ActionResult:
    """Drop a step and all that were stored after it, and run the job again."""
    job_id = parse_id(form.id)
    page.context.audit_target, page.context.audit_detail = form.id, form.step
    await page.context.check_jobs([job_id])
    if not form.step:
        raise BadInput("No step is named: nothing was done.")
    dropped = await page.service.rewind([Rewind(id=job_id, step=form.step)]).one()
    state = (await page.service.job([job_id]).one()).job.state
    if state in _RETRIED:
        await page.service.retry([job_id]).one()
    elif state in _REQUEUED:
        await page.service.requeue([job_id]).one()
    return ActionResult(
        f"Dropped {pluralize(dropped, 'step')}. The job runs again from {shorten(form.step, NAME_SHOWN)}."
    )


class FreshRetryForm(Form, frozen=True, kw_only=True):
    id: str = ""


@routes.action(
    "retry-job-fresh",
    FreshRetryForm,
    confirm="Retry this job from its beginning? All stored steps are dropped, and their work is repeated.",
)
async def retry_job_fresh(page: PageContext[None], form: FreshRetryForm) -> ActionResult:
    """Retry a failed or cancelled job without its stored steps."""
    job_id = parse_id(form.id)
    page.context.audit_target = form.id
    await page.context.check_jobs([job_id])
    await page.service.retry([job_id], fresh=True).one()
    return ActionResult("Retried the job from its beginning.")
