"""Schedules are run by hand, paused, resumed and removed."""

from __future__ import annotations

from windlass.dashboard.page_context import Visit
from windlass.dashboard.routes import DashboardRoutes, Done, Form

routes = DashboardRoutes()


class ScheduleForm(Form, frozen=True, kw_only=True):
    name: str = ""
    reason: str = ""


async def _known(visit: Visit[None], form: ScheduleForm) -> None:
    visit.context.audit_target, visit.context.audit_detail = form.name, form.reason
    status = await visit.service.schedule_of(form.name)
    visit.context.check_found(status.schedule.job.queue, "this schedule")


@routes.action("run-schedule", ScheduleForm)
async def run_schedule(visit: Visit[None], form: ScheduleForm) -> Done:
    """Make its job now, apart from its rhythm."""
    await _known(visit, form)
    await visit.service.run_schedule(form.name)
    return Done(f"{form.name} has made a job, apart from its rhythm.")


@routes.action("pause-schedule", ScheduleForm)
async def pause_schedule(visit: Visit[None], form: ScheduleForm) -> Done:
    """Let it make no jobs."""
    await _known(visit, form)
    await visit.service.pause_schedule(form.name, reason=form.reason)
    return Done(f"{form.name} is paused.")


@routes.action("resume-schedule", ScheduleForm)
async def resume_schedule(visit: Visit[None], form: ScheduleForm) -> Done:
    """Let it make jobs again."""
    await _known(visit, form)
    await visit.service.resume_schedule(form.name)
    return Done(f"{form.name} goes on.")


@routes.action("delete-schedule", ScheduleForm, asks=lambda form: f"Delete the schedule {form.name}? Its jobs stay.")
async def delete_schedule(visit: Visit[None], form: ScheduleForm) -> Done:
    """Remove a schedule; the jobs that it has made stay."""
    await _known(visit, form)
    await visit.service.unschedule(form.name)
    return Done(f"The schedule {form.name} is gone.")
