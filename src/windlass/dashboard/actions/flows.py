"""Actions on a flow: resume, cancel, run again."""

from __future__ import annotations

from windlass.core.ids import format_id, parse_id
from windlass.core.text.humanize import pluralize
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.pages.flow import read_flow
from windlass.dashboard.routes import ActionResult, DashboardRoutes, Form
from windlass.web.app.router import JOB_CONTROLLERS, PRODUCERS

routes = DashboardRoutes()

TIMEOUT_S = 20.0  # a flow may have thousands of steps


class FlowForm(Form, frozen=True, kw_only=True):
    id: str = ""


async def _check_flow(page: PageContext[None], form: FlowForm) -> bytes:
    """Return the id of the flow. Raise Forbidden if the principal may not use one of its queues."""
    flow_id = parse_id(form.id)
    page.context.audit_target = form.id
    found = await read_flow(page, flow_id)
    page.context.audit_detail = found.summary.name
    return flow_id


@routes.action("resume-flow", FlowForm, timeout_s=TIMEOUT_S)
async def resume_flow(page: PageContext[None], form: FlowForm) -> ActionResult:
    """Retry the failed and cancelled steps of a flow. The steps that could not run because of them wait again."""
    resumed = await page.service.resume_flow(await _check_flow(page, form))
    parts = [f"Retried {pluralize(len(resumed.retried), 'step')}."]
    if resumed.refused:
        first = next(iter(resumed.refused.values()))
        parts.append(f"{pluralize(len(resumed.refused), 'step')} could not be retried: {first}")
    return ActionResult(" ".join(parts), kind="bad" if resumed.refused else "good")


@routes.action(
    "cancel-flow",
    FlowForm,
    roles=JOB_CONTROLLERS,
    confirm="Cancel all steps of this flow that have not ended? Running steps are asked to stop.",
    timeout_s=TIMEOUT_S,
)
async def cancel_flow(page: PageContext[None], form: FlowForm) -> ActionResult:
    """Cancel the steps of a flow that have not ended. Running steps are asked to stop."""
    outcome = await page.service.cancel_flow(await _check_flow(page, form))
    asked = "The flow is cancelled; its running steps are asked to stop."
    return ActionResult("The flow is cancelled." if outcome == "cancelled" else asked)


@routes.action("rerun-flow", FlowForm, roles=PRODUCERS, timeout_s=TIMEOUT_S)
async def rerun_flow(page: PageContext[None], form: FlowForm) -> ActionResult:
    """Enqueue a copy of a flow."""
    new_id = await page.service.rerun_flow(await _check_flow(page, form))
    return ActionResult(
        "Enqueued a copy of the flow. It starts with the first step.", to=page.link("flows", format_id(new_id))
    )
