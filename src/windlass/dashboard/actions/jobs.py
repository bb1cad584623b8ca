"""Jobs that were chosen: retried, cancelled, deleted and so on, one or several at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from windlass.core.errors import AlreadyEnded, BadInput, Refusal, UnknownJob
from windlass.core.ids import parse_id
from windlass.core.job import Timeline
from windlass.core.operations import Edit
from windlass.core.text.humanize import pluralize
from windlass.dashboard.forms.filters import LISTS
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.routes import DashboardRoutes, ActionResult, Form
from windlass.store.operation import BatchOperation
from windlass.web.app.router import JOB_CONTROLLERS

routes = DashboardRoutes()

AUDITED_IDS_MAX = 5  # in the audit log


class SelectedJobsForm(Form, frozen=True, kw_only=True):
    ids: tuple[str, ...] = ()

    @property
    def told(self) -> str:
        return "this job" if len(self.ids) == 1 else f"{len(self.ids):,} jobs"


async def _check_selected(page: PageContext[None], form: SelectedJobsForm) -> list[bytes]:
    """Their ids, once it is clear that they are theirs."""
    if not form.ids:
        raise BadInput("No job is chosen: nothing was done. Tick the boxes of some, then try again.")
    ids = [parse_id(one) for one in dict.fromkeys(form.ids)]
    page.context.audit_target = form.ids[0]
    more = f", … {len(ids)} in all" if len(ids) > AUDITED_IDS_MAX else ""
    page.context.audit_detail = ", ".join(form.ids[:AUDITED_IDS_MAX]) + more if len(ids) > 1 else ""
    await page.context.check_jobs(ids)
    return ids


async def _summarize(did: str, question: BatchOperation[str], more: str = "", to: str = "") -> ActionResult:
    """Jobs that went their way meanwhile are no failure; of other refusals the first is told."""
    answers: Sequence[object] = await question
    if len(answers) == 1 and isinstance(answers[0], Refusal):
        raise answers[0]
    outcomes = Counter(_outcome(one) for one in answers)
    first = next((str(one) for one in answers if _outcome(one) == "refused"), "")
    parts = [f"{did} {pluralize(outcomes['done'], 'job')}{more if outcomes['done'] else ''}."]
    if outcomes["gone"]:
        parts.append(f"{pluralize(outcomes['gone'], 'job')} had gone or ended before.")
    if outcomes["refused"]:
        parts.append(f"{pluralize(outcomes['refused'], 'job')} refused: {first}")
    return ActionResult(" ".join(parts), to=to, kind="bad" if outcomes["refused"] else "good")


def _outcome(answer: object) -> str:
    if not isinstance(answer, Refusal):
        return "done"
    return "gone" if isinstance(answer, UnknownJob | AlreadyEnded) else "refused"


@routes.action("retry-jobs", SelectedJobsForm)
async def retry_jobs(page: PageContext[None], form: SelectedJobsForm) -> ActionResult:
    """Send failed or cancelled jobs on their way again."""
    ids = await _check_selected(page, form)
    return await _summarize("Retried", page.service.retry(ids))


@routes.action(
    "cancel-jobs", SelectedJobsForm, roles=JOB_CONTROLLERS, asks=lambda form: f"Cancel {form.told}? What runs is asked to stop."
)
async def cancel_jobs(page: PageContext[None], form: SelectedJobsForm) -> ActionResult:
    """Cancel jobs; those that run are asked to stop."""
    ids = await _check_selected(page, form)
    return await _summarize("Cancelled, or asked to stop,", page.service.cancel(ids))


@routes.action("delete-jobs", SelectedJobsForm, asks=lambda form: f"Delete {form.told}? What is deleted is gone for good.")
async def delete_jobs(page: PageContext[None], form: SelectedJobsForm) -> ActionResult:
    """Remove jobs and all that belongs to them."""
    ids = await _check_selected(page, form)
    to = page.link("jobs", state=await _list_of(page, ids[0])) if _is_page_of(page, form) else ""
    return await _summarize("Deleted", page.service.delete(ids), to=to)


def _is_page_of(page: PageContext[None], form: SelectedJobsForm) -> bool:
    """Whether the form was on the page of the one job: there is nothing to return to."""
    return len(form.ids) == 1 and form.back.partition("?")[0] == page.link("jobs", form.ids[0])


async def _list_of(page: PageContext[None], job_id: bytes) -> str:
    (found,) = await page.service.job([job_id])
    label = found.job.state.label if isinstance(found, Timeline) else ""
    return label if label in LISTS else ""


@routes.action(
    "requeue-jobs", SelectedJobsForm,
    asks=lambda form: f"Put {form.told} back into the queue? What has been done so far may be done again.",
)  # fmt: skip
async def requeue_jobs(page: PageContext[None], form: SelectedJobsForm) -> ActionResult:
    """Back into the queue from any state; a lease on the job ends."""
    ids = await _check_selected(page, form)
    return await _summarize("Requeued", page.service.requeue(ids))


@routes.action("wake-jobs", SelectedJobsForm, asks=lambda form: f"Let {form.told} go on now, whatever is waited for?")
async def wake_jobs(page: PageContext[None], form: SelectedJobsForm) -> ActionResult:
    """End the wait of jobs, whatever they wait for."""
    ids = await _check_selected(page, form)
    return await _summarize("Woke", page.service.wake(ids))


@routes.action("run-jobs-now", SelectedJobsForm)
async def run_jobs_now(page: PageContext[None], form: SelectedJobsForm) -> ActionResult:
    """Let scheduled jobs be taken now."""
    ids = await _check_selected(page, form)
    now_ms = await page.service.now()
    edits = [Edit(id=job_id, run_at_ms=now_ms) for job_id in ids]
    return await _summarize("Brought forward", page.service.edit(edits), " to now")  # type: ignore[arg-type]
