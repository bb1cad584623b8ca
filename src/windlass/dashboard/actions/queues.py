"""Pause, resume, configure and remove queues."""

from __future__ import annotations

from windlass.dashboard.forms import queue_settings
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.routes import ActionResult, DashboardRoutes, Form
from windlass.dashboard.views.queue_names import forget_queue

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
    def subject(self) -> str:
        part = f"Lane {self.lane} of " if self.lane else f"{self.name} in " if self.name else ""
        return f"{part}{self.queue}"


@routes.action("pause-queue", PauseForm)
async def pause_queue(page: PageContext[None], form: PauseForm) -> ActionResult:
    """Stop takes from a queue, or from one of its lanes or names."""
    page.context.check_queue(form.queue)
    page.context.audit_target, page.context.audit_detail = form.queue, form.part + form.reason
    is_new = await page.service.pause(form.queue, lane=form.lane, name=form.name, reason=form.reason)
    return ActionResult(
        f"{form.subject} is paused. Running jobs continue." if is_new else f"{form.subject} was already paused."
    )


@routes.action("resume-queue", PauseForm)
async def resume_queue(page: PageContext[None], form: PauseForm) -> ActionResult:
    """Allow takes again."""
    page.context.check_queue(form.queue)
    page.context.audit_target, page.context.audit_detail = form.queue, form.part
    was_paused = await page.service.resume(form.queue, lane=form.lane, name=form.name)
    return ActionResult(f"{form.subject} is resumed." if was_paused else f"{form.subject} was not paused.")


class ConfigureForm(Form, frozen=True, kw_only=True):
    """Properties of a queue. None leaves a property unchanged."""

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
    lease_renewal: str | None = None
    index: str | None = None


@routes.action("configure-queue", ConfigureForm)
async def configure_queue(page: PageContext[None], form: ConfigureForm) -> ActionResult:
    """Change the properties of a queue."""
    page.context.check_queue(form.queue)
    page.context.audit_target = form.queue
    current = queue_settings.properties(form.queue, await page.service.configuration(form.queue))
    given = {item.field: getattr(form, item.field) for item in current}
    typed = {item.field: text for item in current if (text := given[item.field]) or (text is not None and item.is_list)}
    wanted = {field: queue_settings.parse_value(field, text) for field, text in typed.items()}
    changes = {item.field: wanted[item.field] for item in current if wanted.get(item.field, item.value) != item.value}
    page.context.audit_detail = ", ".join(
        f"{field}={queue_settings.format_value(field, value)}" for field, value in changes.items()
    )
    if not changes:
        return ActionResult("Nothing was changed.")
    await page.service.configure(form.queue, changes)
    changed = ", ".join(field.removesuffix("_ms").replace("_", " ") for field in changes)
    return ActionResult(f"Changed {changed} of {form.queue}.")


class RemoveForm(Form, frozen=True, kw_only=True):
    queue: str = ""
    force: bool = False


def _removal_question(form: RemoveForm) -> str:
    return f"Remove the queue {form.queue} with its properties, pauses and history?"


@routes.action("remove-queue", RemoveForm, confirm=_removal_question)
async def remove_queue(page: PageContext[None], form: RemoveForm) -> ActionResult:
    """Remove a queue that holds no jobs."""
    page.context.check_queue(form.queue)
    page.context.audit_target, page.context.audit_detail = form.queue, "force" if form.force else ""
    existed = await page.service.remove_queue(form.queue, force=form.force)
    forget_queue(page.context.state, form.queue)
    return ActionResult(f"{form.queue} {'is removed' if existed else 'did not exist'}.", to=page.link("queues"))
