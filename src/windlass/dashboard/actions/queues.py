"""Queues are paused, resumed and configured."""

from __future__ import annotations

from windlass.dashboard.forms import queue_settings
from windlass.dashboard.page_context import Visit
from windlass.dashboard.routes import DashboardRoutes, Done, Form

routes = DashboardRoutes()


class PauseForm(Form, frozen=True, kw_only=True):
    queue: str = ""
    lane: str = ""
    name: str = ""
    reason: str = ""

    @property
    def part(self) -> str:
        return f"lane {self.lane}: " if self.lane else f"name {self.name}: " if self.name else ""

    @property
    def told(self) -> str:
        part = f"Lane {self.lane} of " if self.lane else f"{self.name} in " if self.name else ""
        return f"{part}{self.queue}"


@routes.action("pause-queue", PauseForm)
async def pause_queue(visit: Visit[None], form: PauseForm) -> Done:
    """Let nothing be taken from a queue, or from a lane or a name of it."""
    visit.context.check_queue(form.queue)
    visit.context.audit_target, visit.context.audit_detail = form.queue, form.part + form.reason
    is_new = await visit.service.pause(form.queue, lane=form.lane, name=form.name, reason=form.reason)
    return Done(f"{form.told} is paused. What runs goes on." if is_new else f"{form.told} was paused already.")


@routes.action("resume-queue", PauseForm)
async def resume_queue(visit: Visit[None], form: PauseForm) -> Done:
    """Let jobs be taken again, at once."""
    visit.context.check_queue(form.queue)
    visit.context.audit_target, visit.context.audit_detail = form.queue, form.part
    was_paused = await visit.service.resume(form.queue, lane=form.lane, name=form.name)
    return Done(f"{form.told} runs again." if was_paused else f"{form.told} was not paused.")


class ConfigureForm(Form, frozen=True, kw_only=True):
    """What is not given stays as it is."""

    queue: str = ""
    lease_ms: str | None = None
    max_length: str | None = None
    max_bytes: str | None = None
    history_length: str | None = None
    history_bytes: str | None = None
    retention_ms: str | None = None
    aging_ms: str | None = None
    name_lanes: str | None = None
    fair_share: str | None = None


@routes.action("configure-queue", ConfigureForm)
async def configure_queue(visit: Visit[None], form: ConfigureForm) -> Done:
    """Change properties of a queue."""
    visit.context.check_queue(form.queue)
    visit.context.audit_target = form.queue
    now = queue_settings.properties(await visit.service.configuration(form.queue))
    wanted = {one.field: queue_settings.read(one.field, given) for one in now if (given := getattr(form, one.field))}
    changes = {one.field: wanted[one.field] for one in now if wanted.get(one.field, one.value) != one.value}
    visit.context.audit_detail = ", ".join(f"{field}={queue_settings.written(field, value)}" for field, value in changes.items())
    if not changes:
        return Done("Nothing was changed.")
    await visit.service.configure(form.queue, changes)
    return Done(f"{form.queue} has another {' and another '.join(field.removesuffix('_ms') for field in changes)}.")
