"""Create and edit schedules."""

from __future__ import annotations

from windlass.core.errors import BadInput
from windlass.dashboard.forms.schedule_form import ScheduleForm
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.pages.schedule_forms import (
    check_may_change,
    read_form_fields,
    read_original,
    redisplay_schedule,
)
from windlass.dashboard.routes import ActionResult, DashboardRoutes

routes = DashboardRoutes()


@routes.action("set-schedule", ScheduleForm, on_error=redisplay_schedule)
async def set_schedule(page: PageContext[None], form: ScheduleForm) -> ActionResult:
    """Create a schedule, or change one. A change that another person stored first is not replaced by accident."""
    page.context.audit_target, page.context.audit_detail = form.name, f"jobs {form.job} in {form.queue}"
    check_may_change(page)
    original = await read_original(page, form)
    wanted, errors = await read_form_fields(page, form, original)
    if errors:
        raise BadInput("Some fields have errors: nothing was stored.")
    stored = await page.service.schedule(wanted, if_revision=form.overwrite or form.revision)
    is_unchanged = original is not None and stored.revision == original.revision
    outcome = "Nothing was changed." if is_unchanged else f"Saved the schedule {wanted.name}."
    return ActionResult(outcome, to=page.link("schedules", wanted.name))
