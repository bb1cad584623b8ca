"""Rows of alert rules, as the viewer may see them."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.core.access.tokens import Role
from windlass.core.alerts.incident import Alerts, AlertStatus
from windlass.core.alerts.message import page_path
from windlass.core.alerts.rule import AlertRule, describe_figure, describe_threshold
from windlass.core.alerts.targets import hide_secret
from windlass.dashboard.page_context import PageContext


class AlertRow(msgspec.Struct, frozen=True):
    status: AlertStatus
    condition: str
    figure: str  # while the condition holds; else empty
    path: str  # of the page that shows what is wrong
    targets: list[str]
    is_muted: bool

    @property
    def rule(self) -> AlertRule:
        return self.status.rule


def visible_rules(page: PageContext[Any], found: Alerts) -> list[AlertStatus]:
    return [status for status in found.rules if status.rule.is_visible_to(page.principal.queues)]


def make_row(page: PageContext[Any], status: AlertStatus, now_ms: int) -> AlertRow:
    rule, state = status.rule, status.state
    is_admin = page.principal.may(frozenset({Role.ADMIN}))
    return AlertRow(
        status,
        describe_threshold(rule),
        describe_figure(rule.kind, state.value) if state.phase != "ok" else "",
        page.base + page_path(rule.kind, state.subjects),
        [target if is_admin else hide_secret(target) for target in rule.targets],
        state.is_muted(now_ms),
    )
