"""Set, change and remove limits, and change the caps of their keys."""

from __future__ import annotations

import msgspec

from windlass.core.errors import BadInput, UnknownLimit
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.text.durations import parse_duration_ms
from windlass.core.text.limit_text import describe_cap, describe_matcher
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.routes import ActionResult, DashboardRoutes, Form
from windlass.wire.limits import parse_matcher

routes = DashboardRoutes()


class LimitForm(Form, frozen=True, kw_only=True):
    name: str = ""
    running: str = ""
    rate: str = ""
    per: str = ""
    matches: str = ""  # a matcher in JSON; empty: none was typed

    def caps(self) -> dict[str, int | None]:
        if bool(self.running) == bool(self.rate):
            raise BadInput("Enter either how many jobs may run at once, or how many may start per time.")
        if self.running:
            return {"running": _parse_int(self.running), "rate": None}
        return {"running": None, "rate": _parse_int(self.rate), "per_ms": parse_duration_ms(self.per)}


class NewLimitForm(LimitForm, frozen=True, kw_only=True):
    queue: str = ""
    job: str = ""
    key: str = ""

    def matcher(self) -> Matcher:
        if not self.matches.strip():
            return Matcher(queue=self.queue, name=self.job)
        if self.queue or self.job:
            raise BadInput("Enter either conditions, or a queue and a job name. Conditions can name both.")
        return parse_matcher(self.matches)


@routes.action("set-limit", NewLimitForm)
async def set_limit(page: PageContext[None], form: NewLimitForm) -> ActionResult:
    """Add a limit on running jobs, or on starts per time."""
    wanted = msgspec.convert({"name": form.name, "matches": form.matcher(), "key": form.key} | form.caps(), Limit)
    if any(state.limit.name == form.name for state in await page.service.limits()):
        raise BadInput(f"A limit named {form.name!r} exists already: change it, or use another name.")
    return await _set(page, wanted)


@routes.action("change-limit", LimitForm)
async def change_limit(page: PageContext[None], form: LimitForm) -> ActionResult:
    """Change the number of jobs that a limit allows, and the jobs that it applies to."""
    changes = form.caps() | ({"matches": parse_matcher(form.matches)} if form.matches.strip() else {})
    for state in await page.service.limits():
        if state.limit.name == form.name:
            return await _set(page, msgspec.structs.replace(state.limit, **changes))
    raise UnknownLimit(f"There is no limit {form.name!r}.")


async def _set(page: PageContext[None], limit: Limit) -> ActionResult:
    page.context.check_all_queues()
    said = f"{describe_cap(limit)}, for {describe_matcher(limit.matches)}"
    page.context.audit_target, page.context.audit_detail = limit.name, said
    await page.service.limit(limit)
    return ActionResult(f"{limit.name} allows {said}.")


class CapForm(Form, frozen=True, kw_only=True):
    name: str = ""
    key: str = ""
    running: str = ""


@routes.action("set-cap", CapForm)
async def set_cap(page: PageContext[None], form: CapForm) -> ActionResult:
    """Change the cap of one key of a limit."""
    page.context.check_all_queues()
    running = _parse_int(form.running)
    page.context.audit_target = form.name
    page.context.audit_detail = msgspec.json.encode({"running": running, "key": form.key}).decode()
    changed = await page.service.set_cap(form.name, form.key, running=running)
    return ActionResult(f"Up to {running:,} job{'' if running == 1 else 's'} of {changed.key} may run at once.")


class NamedForm(Form, frozen=True, kw_only=True):
    name: str = ""


@routes.action("delete-limit", NamedForm, confirm=lambda form: f"Delete the limit {form.name}?")
async def delete_limit(page: PageContext[None], form: NamedForm) -> ActionResult:
    """Delete a limit. Jobs that it blocks may run at once."""
    page.context.check_all_queues()
    page.context.audit_target = form.name
    await page.service.unlimit(form.name)
    return ActionResult(f"Deleted the limit {form.name}.")


def _parse_int(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise BadInput(f"{text!r} is not a whole number.")
    return int(text)
