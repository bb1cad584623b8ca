"""Routes of alert rules and their incidents."""

from __future__ import annotations

from typing import Any, TypeAlias

from windlass.core import errors
from windlass.core.access.tokens import Role
from windlass.core.alerts.incident import AlertStatus
from windlass.core.alerts.rule import AlertRule
from windlass.core.errors import Forbidden
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import ADMINS, READERS, Routes
from windlass.wire.alerts.shapes import (
    AlertRuleShape,
    AlertShape,
    AlertsShape,
    MuteAlertShape,
    TestedAlertShape,
    alert_shape,
    past_incident_shape,
)

routes = Routes("/api/v1", tag="Alerts")

AlertContext: TypeAlias = RequestContext[None, None]
_KNOWN = (errors.TooLarge, errors.UnknownAlert)
_CHANGING: dict[str, Any] = {"roles": ADMINS, "is_audited": True}


@routes.get("/alerts", roles=READERS, response=AlertsShape)
async def alerts(context: AlertContext) -> AlertsShape:
    """List alert rules with their open incidents, and the last incidents that are over.

    A token limited to some queues sees the rules about these queues only."""
    found = await context.service.alerts()
    queues = context.principal.queues
    return AlertsShape(
        now_ms=found.now_ms,
        alerts=[_shape(context, status) for status in found.rules if status.rule.is_visible_to(queues)],
        past=[
            past_incident_shape(past)
            for past in found.past
            if AlertRule(name=past.name, kind=past.kind, pattern=past.pattern).is_visible_to(queues)
        ],
    )


@routes.get("/alerts/{name}", roles=READERS, response=AlertShape, refuses=_KNOWN)
async def alert(context: AlertContext) -> AlertShape:
    """Read an alert rule with its incident."""
    return _shape(context, await _find(context))


@routes.put(
    "/alerts/{name}", body=AlertRuleShape, response=AlertShape, refuses=(errors.TooLarge, errors.EngineFull),
    **_CHANGING,
)  # fmt: skip
async def set_alert(context: RequestContext[AlertRuleShape, None]) -> AlertShape:
    """Create or change an alert rule. Its open incident goes on.

    A rule that the settings of a server declare is refused: it is changed there."""
    rule = context.body.rule(_audit_name(context))
    context.audit_detail = f"{rule.kind} {rule.pattern}"
    _check_scope(context, rule)
    if (replaced := await _look_up(context)) is not None:
        _check_scope(context, replaced.rule)
    await context.service.set_alert(rule)
    return _shape(context, await _find(context))


@routes.delete("/alerts/{name}", refuses=(*_KNOWN, errors.EngineFull), **_CHANGING)
async def remove_alert(context: AlertContext) -> None:
    """Remove an alert rule. Its open incident ends without a message."""
    await _find(context)
    await context.service.remove_alert(_audit_name(context))


@routes.post(
    "/alerts/{name}/mute", body=MuteAlertShape, response=AlertShape, refuses=(*_KNOWN, errors.EngineFull), **_CHANGING
)
async def mute_alert(context: RequestContext[MuteAlertShape, None]) -> AlertShape:
    """Send no message about a rule for some time.

    An incident that outlasts the time is announced then. The end of an announced incident is always sent."""
    name, for_ms = _audit_name(context), context.body.for_ms
    context.audit_detail = f"{for_ms} ms"
    await _find(context)
    return _shape(context, await context.service.mute_alert(name, for_ms=for_ms))


@routes.post("/alerts/{name}/test", response=TestedAlertShape, refuses=(*_KNOWN, errors.EngineFull), **_CHANGING)
async def test_alert(context: AlertContext) -> TestedAlertShape:
    """Send a test message to each target of a rule.

    Messages are delivered as callbacks: GET /callbacks shows those that could not be delivered yet."""
    name = _audit_name(context)
    await _find(context)
    public_url = context.state.settings.public_url
    return TestedAlertShape(targets=await context.service.test_alert(name, public_url=public_url))


async def _find(context: RequestContext[Any, Any]) -> AlertStatus:
    if (status := await _look_up(context)) is None:
        raise errors.UnknownAlert(f"There is no alert rule {context.path['name']!r}.")
    _check_scope(context, status.rule)
    return status


async def _look_up(context: RequestContext[Any, Any]) -> AlertStatus | None:
    rules = (await context.service.alerts(past=0)).rules
    return next((status for status in rules if status.rule.name == context.path["name"]), None)


def _check_scope(context: RequestContext[Any, Any], rule: AlertRule) -> None:
    if not rule.is_visible_to(context.principal.queues):
        raise Forbidden(
            f"The token {context.principal.name!r} is for some queues only; this rule is about others as well."
        )


def _audit_name(context: RequestContext[Any, Any]) -> str:
    context.audit_target = context.path["name"]
    return context.audit_target


def _shape(context: RequestContext[Any, Any], status: AlertStatus) -> AlertShape:
    return alert_shape(status, shows_secrets=context.principal.may(frozenset({Role.ADMIN})))
