"""Set, mute, test and remove alert rules."""

from __future__ import annotations

from windlass.core.errors import BadInput, Forbidden, UnknownAlert
from windlass.core.text.durations import parse_duration_ms
from windlass.dashboard.forms.alert_form import AlertForm
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.pages.alerts.page import redisplay_form
from windlass.dashboard.routes import ActionResult, DashboardRoutes, Form

routes = DashboardRoutes()


class NamedForm(Form, frozen=True, kw_only=True):
    name: str = ""


class MuteForm(NamedForm, frozen=True, kw_only=True):
    time: str = ""  # empty: the rule notifies again


@routes.action("set-alert", AlertForm, on_error=redisplay_form)
async def set_alert(page: PageContext[None], form: AlertForm) -> ActionResult:
    """Add an alert rule, or change one."""
    rule = form.rule()
    page.context.audit_target, page.context.audit_detail = rule.name, f"{rule.kind} {rule.pattern}"
    if not rule.is_visible_to(page.principal.queues):
        raise Forbidden("Your token is for some queues only; this rule is about others as well.")
    rules = {status.rule.name: status.rule for status in (await page.service.alerts(past=0)).rules}
    if rule.name in rules and not rules[rule.name].is_visible_to(page.principal.queues):
        raise Forbidden(f"The rule {rule.name!r} is about other queues than your token's. Use another name.")
    if rule.name in rules and form.known != rule.name:
        raise BadInput(f"A rule named {rule.name!r} exists already: change it, or use another name.")
    await page.service.set_alert(rule)
    if form.known and form.known != rule.name:
        return ActionResult(f"{rule.name} is added; {form.known} is unchanged.", to=page.link("alerts"))
    return ActionResult(f"{rule.name} is {'changed' if form.known else 'added'}.", to=page.link("alerts"))


@routes.action("mute-alert", MuteForm)
async def mute_alert(page: PageContext[None], form: MuteForm) -> ActionResult:
    """Send no message about a rule for some time, or end that."""
    for_ms = parse_duration_ms(form.time) if form.time else 0
    await _check(page, form.name, form.time)
    await page.service.mute_alert(form.name, for_ms=for_ms)
    return ActionResult(f"{form.name} is muted for {form.time}." if for_ms else f"{form.name} notifies again.")


@routes.action("test-alert", NamedForm)
async def send_test_message(page: PageContext[None], form: NamedForm) -> ActionResult:
    """Send a test message to each target of a rule."""
    await _check(page, form.name)
    count = await page.service.test_alert(form.name, public_url=page.settings.public_url)
    return ActionResult(f"A test message is on its way to {count} target{'s' if count > 1 else ''} of {form.name}.")


@routes.action(
    "delete-alert", NamedForm, confirm=lambda form: f"Delete the rule {form.name}? Its incident ends without a message."
)
async def delete_alert(page: PageContext[None], form: NamedForm) -> ActionResult:
    """Delete an alert rule. Its open incident ends without a message."""
    await _check(page, form.name)
    await page.service.remove_alert(form.name)
    return ActionResult(f"The rule {form.name} is deleted.", to=page.link("alerts"))


async def _check(page: PageContext[None], name: str, detail: str = "") -> None:
    page.context.audit_target, page.context.audit_detail = name, detail
    for status in (await page.service.alerts(past=0)).rules:
        if status.rule.name == name and status.rule.is_visible_to(page.principal.queues):
            return
    raise UnknownAlert(f"There is no alert rule {name!r}.")
