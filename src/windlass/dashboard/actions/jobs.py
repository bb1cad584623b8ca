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
from windlass.dashboard.page_context import Visit
from windlass.dashboard.routes import DashboardRoutes, ActionResult, Form
from windlass.store.operation import BatchOperation
from windlass.web.app.router import JOB_CONTROLLERS

routes = DashboardRoutes()

IDS_NAMED = 5  # in the audit log


class Chosen(Form, frozen=True, kw_only=True):
    ids: tuple[str, ...] = ()

    @property
    def told(self) -> str:
        return "this job" if len(self.ids) == 1 else f"{len(self.ids):,} jobs"


async def _about(visit: Visit[None], form: Chosen) -> list[bytes]:
    """Their ids, once it is clear that they are theirs."""
    if not form.ids:
        raise BadInput("No job is chosen: nothing was done. Tick the boxes of some, then try again.")
    ids = [parse_id(one) for one in dict.fromkeys(form.ids)]
    visit.context.audit_target = form.ids[0]
    more = f", … {len(ids)} in all" if len(ids) > IDS_NAMED else ""
    visit.context.audit_detail = ", ".join(form.ids[:IDS_NAMED]) + more if len(ids) > 1 else ""
    await visit.context.check_jobs(ids)
    return ids


async def _done(did: str, question: BatchOperation[str], more: str = "", to: str = "") -> ActionResult:
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


@routes.action("retry-jobs", Chosen)
async def retry_jobs(visit: Visit[None], form: Chosen) -> ActionResult:
    """Send failed or cancelled jobs on their way again."""
    ids = await _about(visit, form)
    return await _done("Retried", visit.service.retry(ids))


@routes.action(
    "cancel-jobs", Chosen, roles=JOB_CONTROLLERS, asks=lambda form: f"Cancel {form.told}? What runs is asked to stop."
)
async def cancel_jobs(visit: Visit[None], form: Chosen) -> ActionResult:
    """Cancel jobs; those that run are asked to stop."""
    ids = await _about(visit, form)
    return await _done("Cancelled, or asked to stop,", visit.service.cancel(ids))


@routes.action("delete-jobs", Chosen, asks=lambda form: f"Delete {form.told}? What is deleted is gone for good.")
async def delete_jobs(visit: Visit[None], form: Chosen) -> ActionResult:
    """Remove jobs and all that belongs to them."""
    ids = await _about(visit, form)
    to = visit.link("jobs", state=await _list_of(visit, ids[0])) if _is_page_of(visit, form) else ""
    return await _done("Deleted", visit.service.delete(ids), to=to)


def _is_page_of(visit: Visit[None], form: Chosen) -> bool:
    """Whether the form was on the page of the one job: there is nothing to return to."""
    return len(form.ids) == 1 and form.back.partition("?")[0] == visit.link("jobs", form.ids[0])


async def _list_of(visit: Visit[None], job_id: bytes) -> str:
    (found,) = await visit.service.job([job_id])
    label = found.job.state.label if isinstance(found, Timeline) else ""
    return label if label in LISTS else ""


@routes.action(
    "requeue-jobs", Chosen,
    asks=lambda form: f"Put {form.told} back into the queue? What has been done so far may be done again.",
)  # fmt: skip
async def requeue_jobs(visit: Visit[None], form: Chosen) -> ActionResult:
    """Back into the queue from any state; a lease on the job ends."""
    ids = await _about(visit, form)
    return await _done("Requeued", visit.service.requeue(ids))


@routes.action("wake-jobs", Chosen, asks=lambda form: f"Let {form.told} go on now, whatever is waited for?")
async def wake_jobs(visit: Visit[None], form: Chosen) -> ActionResult:
    """End the wait of jobs, whatever they wait for."""
    ids = await _about(visit, form)
    return await _done("Woke", visit.service.wake(ids))


@routes.action("run-jobs-now", Chosen)
async def run_jobs_now(visit: Visit[None], form: Chosen) -> ActionResult:
    """Let scheduled jobs be taken now."""
    ids = await _about(visit, form)
    now_ms = await visit.service.now()
    edits = [Edit(id=job_id, run_at_ms=now_ms) for job_id in ids]
    return await _done("Brought forward", visit.service.edit(edits), " to now")  # type: ignore[arg-type]
