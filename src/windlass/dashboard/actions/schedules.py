"""Run, pause, resume and delete schedules."""

from __future__ import annotations

from windlass.dashboard.page_context import PageContext
from windlass.dashboard.routes import ActionResult, DashboardRoutes, Form

routes = DashboardRoutes()


class ScheduleForm(Form, frozen=True, kw_only=True):
    name: str = ""
    reason: str = ""


async def _check_schedule(page: PageContext[None], form: ScheduleForm) -> None:
    page.context.audit_target, page.context.audit_detail = form.name, form.reason
    status = await page.service.schedule_of(form.name)
    page.context.check_found(status.schedule.job.queue, "this schedule")


@routes.action("run-schedule", ScheduleForm)
async def run_schedule(page: PageContext[None], form: ScheduleForm) -> ActionResult:
    """Create a job of the schedule now; its next occurrence does not change."""
    await _check_schedule(page, form)
    await page.service.run_schedule(form.name)
    return ActionResult(f"Created a job of {form.name}. The next occurrence is unchanged.")


@routes.action("pause-schedule", ScheduleForm)
async def pause_schedule(page: PageContext[None], form: ScheduleForm) -> ActionResult:
    """Pause a schedule: it creates no jobs."""
    await _check_schedule(page, form)
    await page.service.pause_schedule(form.name, reason=form.reason)
    return ActionResult(f"Paused {form.name}.")


@routes.action("resume-schedule", ScheduleForm)
async def resume_schedule(page: PageContext[None], form: ScheduleForm) -> ActionResult:
    """Resume a paused schedule."""
    await _check_schedule(page, form)
    await page.service.resume_schedule(form.name)
    return ActionResult(f"Resumed {form.name}.")


@routes.action(
    "delete-schedule", ScheduleForm, confirm=lambda form: f"Delete the schedule {form.name}? Its jobs are kept."
)
async def delete_schedule(page: PageContext[None], form: ScheduleForm) -> ActionResult:
    """Delete a schedule. The jobs that it created are kept."""
    await _check_schedule(page, form)
    await page.service.unschedule(form.name)
    return ActionResult(f"Deleted the schedule {form.name}.", to=page.link("schedules"))
