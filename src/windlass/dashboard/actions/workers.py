"""Workers are asked to end."""

from __future__ import annotations

from windlass.core.ids import parse_id
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.routes import DashboardRoutes, ActionResult, Form

routes = DashboardRoutes()


class WorkerForm(Form, frozen=True, kw_only=True):
    worker: str = ""
    title: str = ""  # as people know it


@routes.action("stop-worker", WorkerForm, asks=lambda form: f"Stop {form.title or form.worker}? It ends what it runs.")
async def stop_worker(page: PageContext[None], form: WorkerForm) -> ActionResult:
    """Ask a worker to end gently: it takes no more, ends what it runs, and leaves."""
    page.context.check_all_queues()
    page.context.audit_target, page.context.audit_detail = form.worker, form.title
    is_new = await page.service.stop_worker(parse_id(form.worker))
    name = form.title or form.worker
    return ActionResult(f"{name} ends what it runs, and leaves." if is_new else f"{name} was asked to stop already.")
