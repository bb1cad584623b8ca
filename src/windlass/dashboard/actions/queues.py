"""Queues are paused and resumed."""

from __future__ import annotations

from ..routes import DashboardRoutes, Done, Form
from ..visit import Visit

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
    visit.ask.may_use(form.queue)
    visit.ask.target, visit.ask.detail = form.queue, form.part + form.reason
    is_new = await visit.service.pause(form.queue, lane=form.lane, name=form.name, reason=form.reason)
    return Done(f"{form.told} is paused. What runs goes on." if is_new else f"{form.told} was paused already.")


@routes.action("resume-queue", PauseForm)
async def resume_queue(visit: Visit[None], form: PauseForm) -> Done:
    """Let jobs be taken again, at once."""
    visit.ask.may_use(form.queue)
    visit.ask.target, visit.ask.detail = form.queue, form.part
    was_paused = await visit.service.resume(form.queue, lane=form.lane, name=form.name)
    return Done(f"{form.told} runs again." if was_paused else f"{form.told} was not paused.")
