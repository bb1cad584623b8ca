"""Alert rules, their incidents, and the form to set a rule."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.core.alerts.incident import Alerts, PastIncident
from windlass.core.alerts.rule import KINDS, AlertRule, format_figure
from windlass.core.errors import WindlassError
from windlass.dashboard.forms.alert_form import EMPTY, PRESETS, TITLES, AlertForm, form_of
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.rendering import render_page
from windlass.dashboard.routes import DashboardRoutes
from windlass.web.listener.messages import Response
from windlass.wire.problems import status_for

from .rows import AlertRow, make_row, visible_rules

routes = DashboardRoutes()


class AlertsQuery(msgspec.Struct, frozen=True, kw_only=True):
    preset: str = ""
    rule: str = ""  # to be changed


class PastRow(msgspec.Struct, frozen=True):
    past: PastIncident
    peak: str


class AlertsView(msgspec.Struct, frozen=True):
    now_ms: int
    rows: list[AlertRow]
    past: list[PastRow]
    form: AlertForm
    kinds: list[tuple[str, str]]
    presets: list[tuple[str, str]]
    error: str = ""


@routes.page("/alerts", "alerts.html", section="alerts", query=AlertsQuery)
async def alerts(page: PageContext[AlertsQuery]) -> AlertsView:
    """List alert rules and incidents, with a form to set a rule."""
    found, query = await page.service.alerts(), page.query
    form = PRESETS.get(query.preset, EMPTY)
    if query.rule and page.may("admin"):
        form = next((form_of(one.rule) for one in visible_rules(page, found) if one.rule.name == query.rule), form)
    return _view(page, found, form)


async def redisplay_form(page: PageContext[Any], form: AlertForm, error: WindlassError) -> Response:
    """Show the page again, with the typed values and the error."""
    page.section = "alerts"
    view = _view(page, await page.service.alerts(), form, str(error))
    return render_page("alerts.html", view, page, status=status_for(error))


def _view(page: PageContext[Any], found: Alerts, form: AlertForm, error: str = "") -> AlertsView:
    page.now_ms = found.now_ms
    return AlertsView(
        found.now_ms,
        [make_row(page, status, found.now_ms) for status in visible_rules(page, found)],
        [PastRow(past, format_figure(past.kind, past.peak)) for past in found.past if _may_see_past(page, past)],
        form,
        [(kind, TITLES[kind]) for kind in KINDS],
        [(name, TITLES[preset.rule().kind]) for name, preset in PRESETS.items()],
        error,
    )


def _may_see_past(page: PageContext[Any], past: PastIncident) -> bool:
    return AlertRule(name=past.name, kind=past.kind, pattern=past.pattern).is_visible_to(page.principal.queues)
