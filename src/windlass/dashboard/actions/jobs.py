"""Actions on one or more selected jobs: retry, cancel, delete, requeue, wake, run now."""

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
from windlass.dashboard.routes import ActionResult, DashboardRoutes, Form
from windlass.store.operation import BatchOperation
from windlass.web.app.router import JOB_CONTROLLERS

routes = DashboardRoutes()

AUDITED_IDS_MAX = 5  # named in an audit entry


class SelectedJobsForm(Form, frozen=True, kw_only=True):
    ids: tuple[str, ...] = ()

    @property
    def subject(self) -> str:
        return "this job" if len(self.ids) == 1 else f"{len(self.ids):,} jobs"


async def _check_selected(page: PageContext[None], form: SelectedJobsForm) -> list[bytes]:
    """Return the ids of the selected jobs. Raise Forbidden if the principal may not use one of their queues."""
    if not form.ids:
        raise BadInput("No job is selected: nothing was done. Tick the boxes of some jobs, then try again.")
    ids = [parse_id(text) for text in dict.fromkeys(form.ids)]
    page.context.audit_target = form.ids[0]
    more = f", … {len(ids)} in all" if len(ids) > AUDITED_IDS_MAX else ""
    page.context.audit_detail = ", ".join(form.ids[:AUDITED_IDS_MAX]) + more if len(ids) > 1 else ""
    await page.context.check_jobs(ids)
    return ids


async def _summarize(verb: str, operation: BatchOperation[str], more: str = "", to: str = "") -> ActionResult:
    """Run the operation and describe its result. Jobs that ended or were removed before are not errors. Of other
    refusals the first one is quoted."""
    answers: Sequence[object] = await operation
    if len(answers) == 1 and isinstance(answers[0], Refusal):
        raise answers[0]
    outcomes = Counter(_outcome(answer) for answer in answers)
    first = next((str(answer) for answer in answers if _outcome(answer) == "refused"), "")
    parts = [f"{verb} {pluralize(outcomes['done'], 'job')}{more if outcomes['done'] else ''}."]
    if outcomes["gone"]:
        parts.append(f"{pluralize(outcomes['gone'], 'job')} had already ended or been removed.")
    if outcomes["refused"]:
        parts.append(f"{pluralize(outcomes['refused'], 'job')} stayed unchanged: {first}")
    return ActionResult(" ".join(parts), to=to, kind="bad" if outcomes["refused"] else "good")


def _outcome(answer: object) -> str:
    if not isinstance(answer, Refusal):
        return "done"
    return "gone" if isinstance(answer, UnknownJob | AlreadyEnded) else "refused"


@routes.action("retry-jobs", SelectedJobsForm)
async def retry_jobs(page: PageContext[None], form: SelectedJobsForm) -> ActionResult:
    """Put failed or cancelled jobs back into their queues."""
    ids = await _check_selected(page, form)
    return await _summarize("Retried", page.service.retry(ids))


@routes.action(
    "cancel-jobs",
    SelectedJobsForm,
    roles=JOB_CONTROLLERS,
    confirm=lambda form: f"Cancel {form.subject}? Running jobs are asked to stop.",
)
async def cancel_jobs(page: PageContext[None], form: SelectedJobsForm) -> ActionResult:
    """Cancel jobs. Running jobs are asked to stop."""
    ids = await _check_selected(page, form)
    return await _summarize("Cancelled", page.service.cancel(ids), "; running ones are asked to stop")


@routes.action("delete-jobs", SelectedJobsForm, confirm=lambda form: f"Delete {form.subject}? This cannot be undone.")
async def delete_jobs(page: PageContext[None], form: SelectedJobsForm) -> ActionResult:
    """Delete jobs with all their data."""
    ids = await _check_selected(page, form)
    to = page.link("jobs", state=await _list_of(page, ids[0])) if _is_page_of(page, form) else ""
    return await _summarize("Deleted", page.service.delete(ids), to=to)


def _is_page_of(page: PageContext[None], form: SelectedJobsForm) -> bool:
    """Tell whether the form was on the page of the deleted job, which no longer exists."""
    return len(form.ids) == 1 and form.back.partition("?")[0] == page.link("jobs", form.ids[0])


async def _list_of(page: PageContext[None], job_id: bytes) -> str:
    (found,) = await page.service.job([job_id])
    label = found.job.state.label if isinstance(found, Timeline) else ""
    return label if label in LISTS else ""


@routes.action(
    "requeue-jobs", SelectedJobsForm,
    confirm=lambda form: f"Put {form.subject} back into the queue? Work already done may be repeated.",
)  # fmt: skip
async def requeue_jobs(page: PageContext[None], form: SelectedJobsForm) -> ActionResult:
    """Put jobs back into their queues from any state. Leases on them end."""
    ids = await _check_selected(page, form)
    return await _summarize("Requeued", page.service.requeue(ids))


@routes.action(
    "wake-jobs", SelectedJobsForm, confirm=lambda form: f"Wake {form.subject} now, without waiting for other jobs?"
)
async def wake_jobs(page: PageContext[None], form: SelectedJobsForm) -> ActionResult:
    """End the wait of jobs for other jobs."""
    ids = await _check_selected(page, form)
    return await _summarize("Woke", page.service.wake(ids))


@routes.action("run-jobs-now", SelectedJobsForm)
async def run_jobs_now(page: PageContext[None], form: SelectedJobsForm) -> ActionResult:
    """Make scheduled jobs due now."""
    ids = await _check_selected(page, form)
    now_ms = await page.service.now()
    edits = [Edit(id=job_id, run_at_ms=now_ms) for job_id in ids]
    return await _summarize("Rescheduled", page.service.edit(edits), " to now")  # type: ignore[arg-type]
