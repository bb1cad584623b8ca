"""Create, edit, run, pause, resume and delete schedules."""

from __future__ import annotations

from windlass.core.errors import BadInput
from windlass.dashboard.forms.schedule_form import ScheduleForm
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.pages.schedules import check_may_change, read_form_fields, read_original, redisplay_schedule
from windlass.dashboard.routes import ActionResult, DashboardRoutes, Form

routes = DashboardRoutes()


class NamedScheduleForm(Form, frozen=True, kw_only=True):
    name: str = ""
    reason: str = ""


async def _check_schedule(page: PageContext[None], form: NamedScheduleForm) -> None:
    page.context.audit_target, page.context.audit_detail = form.name, form.reason
    status = await page.service.schedule_of(form.name)
    page.context.check_found(status.schedule.job.queue, "this schedule")


@routes.action("run-schedule", NamedScheduleForm)
async def run_schedule(page: PageContext[None], form: NamedScheduleForm) -> ActionResult:
    """Create a job of the schedule now; its next occurrence does not change."""
    await _check_schedule(page, form)
    await page.service.run_schedule(form.name)
    return ActionResult(f"Created a job of {form.name}. The next occurrence is unchanged.")


@routes.action("pause-schedule", NamedScheduleForm)
async def pause_schedule(page: PageContext[None], form: NamedScheduleForm) -> ActionResult:
    """Pause a schedule: it creates no jobs."""
    await _check_schedule(page, form)
    await page.service.pause_schedule(form.name, reason=form.reason)
    return ActionResult(f"Paused {form.name}.")


@routes.action("resume-schedule", NamedScheduleForm)
async def resume_schedule(page: PageContext[None], form: NamedScheduleForm) -> ActionResult:
    """Resume a paused schedule."""
    await _check_schedule(page, form)
    await page.service.resume_schedule(form.name)
    return ActionResult(f"Resumed {form.name}.")


@routes.action(
    "delete-schedule", NamedScheduleForm, confirm=lambda form: f"Delete the schedule {form.name}? Its jobs are kept."
)
async def delete_schedule(page: PageContext[None], form: NamedScheduleForm) -> ActionResult:
    """Delete a schedule. The jobs that it created are kept."""
    await _check_schedule(page, form)
    await page.service.unschedule(form.name)
    return ActionResult(f"Deleted the schedule {form.name}.", to=page.link("schedules"))


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
