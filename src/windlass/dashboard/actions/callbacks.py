"""Redelivery of callbacks whose delivery was given up."""

from __future__ import annotations

from windlass.core.callbacks.callback import parse_pending_callback_id
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.routes import ActionResult, DashboardRoutes, Form

routes = DashboardRoutes()


class RedeliverForm(Form, frozen=True, kw_only=True):
    callback: str = ""


@routes.action("redeliver", RedeliverForm)
async def redeliver(page: PageContext[None], form: RedeliverForm) -> ActionResult:
    """Deliver a callback again whose delivery was given up."""
    page.context.check_all_queues()
    page.context.audit_target = form.callback
    await page.service.redeliver([parse_pending_callback_id(form.callback)]).one()
    return ActionResult("The callback will be delivered again now, with all its attempts.")
