"""Stop workers."""

from __future__ import annotations

from windlass.core.ids import parse_id
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.routes import ActionResult, DashboardRoutes, Form

routes = DashboardRoutes()


class WorkerForm(Form, frozen=True, kw_only=True):
    worker: str = ""
    title: str = ""  # shown to the user


@routes.action(
    "stop-worker",
    WorkerForm,
    confirm=lambda form: f"Stop {form.title or form.worker}? It finishes its running jobs first.",
)
async def stop_worker(page: PageContext[None], form: WorkerForm) -> ActionResult:
    """Ask a worker to stop: it takes no more jobs, finishes its running jobs, and exits."""
    page.context.check_all_queues()
    page.context.audit_target, page.context.audit_detail = form.worker, form.title
    is_new = await page.service.stop_worker(parse_id(form.worker))
    name = form.title or form.worker
    if is_new:
        return ActionResult(f"{name} will stop after its running jobs.")
    return ActionResult(f"{name} was already asked to stop.")
