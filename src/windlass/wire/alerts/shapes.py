"""Shapes of alert rules and their incidents."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from windlass.core.alerts.incident import Alerts, AlertState, AlertStatus, PastIncident, Phase
from windlass.core.alerts.rule import COOL_DOWN_MS, DEFAULT_THRESHOLDS, WINDOW_MS, AlertKind, AlertRule
from windlass.core.alerts.targets import hide_secret
from windlass.core.alerts.validation import MUTE_MAX_MS, TARGETS_MAX, THRESHOLD_MAX, WINDOW_MAX_MS, WINDOW_MIN_MS
from windlass.core.validation.bounds import NOTE_MAX, QUEUE_MAX
from windlass.wire.fields import Duration
from windlass.wire.shape import RequestShape, ResponseShape

_RULE_FIELDS = ("name", "kind", "pattern", "window_ms", "for_ms", "cool_down_ms", "note", "is_enabled", "is_declared")
_STATE_FIELDS = (
    "phase", "since_ms", "opened_at_ms", "is_announced", "quiet_until_ms", "suppressed", "muted_until_ms", "peak",
    "subjects", "is_cut",
)  # fmt: skip


class AlertRuleShape(RequestShape, frozen=True, kw_only=True):
    """An alert rule to set."""

    kind: Annotated[AlertKind, Meta(description="What is watched.")]
    pattern: Annotated[
        str, Meta(max_length=QUEUE_MAX, description="Queues, or for schedule_missed schedules, with `*`; empty: all.")
    ] = ""
    threshold: Annotated[
        Annotated[float, Meta(gt=0, le=THRESHOLD_MAX)] | None,
        Meta(
            description="The figure from which on the condition holds. failures: per minute; oldest_age and "
            "schedule_missed: milliseconds; no_worker: waiting jobs; callback_given_up: callbacks; engine_risk: "
            "findings. null: the default of the kind."
        ),
    ] = None
    window_ms: Annotated[
        int,
        Meta(
            ge=WINDOW_MIN_MS,
            le=WINDOW_MAX_MS,
            description="How far back failures, missed occurrences and given-up callbacks count, in whole minutes.",
        ),
    ] = WINDOW_MS
    for_ms: Annotated[Duration, Meta(description="How long the condition must hold before an incident opens.")] = 0
    cool_down_ms: Annotated[
        Duration, Meta(description="An incident that returns within this time does not notify again.")
    ] = COOL_DOWN_MS
    targets: Annotated[
        tuple[str, ...],
        Meta(max_length=TARGETS_MAX, description="https://…, slack:https://… or mailto:ops@example.com."),
    ] = ()
    note: Annotated[str, Meta(max_length=NOTE_MAX, description="Added to each message.")] = ""
    is_enabled: bool = True

    def rule(self, name: str) -> AlertRule:
        fields = msgspec.structs.asdict(self)
        if self.threshold is None:
            fields["threshold"] = DEFAULT_THRESHOLDS[self.kind]
        return AlertRule(name=name, **fields)


class MuteAlertShape(RequestShape, frozen=True, kw_only=True):
    for_ms: Annotated[int, Meta(ge=0, le=MUTE_MAX_MS, description="From now; 0: the rule notifies again.")]


class AlertShape(ResponseShape, frozen=True, kw_only=True):
    """An alert rule, and its incident if one is open."""

    name: str
    kind: AlertKind
    pattern: str
    threshold: float
    window_ms: int
    for_ms: int
    cool_down_ms: int
    targets: Annotated[tuple[str, ...], Meta(description="Only an admin reads the paths of URLs.")]
    note: str
    is_enabled: bool
    is_declared: Annotated[bool, Meta(description="The settings of a server declare the rule: it is changed there.")]
    phase: Annotated[Phase, Meta(description="pending: the condition holds, but not long enough yet.")]
    since_ms: Annotated[int, Meta(description="Since when the condition holds; 0: it does not.")]
    opened_at_ms: Annotated[int, Meta(description="When the incident opened; 0: none is open.")]
    is_announced: Annotated[bool, Meta(description="Whether a message about the open incident was sent.")]
    quiet_until_ms: Annotated[int, Meta(description="End of the cool-down.")]
    suppressed: Annotated[int, Meta(description="Incidents that were not announced since the last message.")]
    muted_until_ms: int
    figure: Annotated[float, Meta(description="While the condition holds: the last measurement, else 0.")]
    peak: float
    subjects: Annotated[tuple[str, ...], Meta(description="Queues, schedules or findings, the worst first.")]
    is_cut: Annotated[bool, Meta(description="More queues match than are looked at (500).")]


class PastIncidentShape(ResponseShape, frozen=True, kw_only=True):
    name: Annotated[str, Meta(description="The name of the rule, which may be gone.")]
    kind: AlertKind
    pattern: str
    opened_at_ms: int
    over_at_ms: int
    peak: float
    subjects: tuple[str, ...]
    is_announced: bool


class AlertsShape(ResponseShape, frozen=True, kw_only=True):
    now_ms: int
    alerts: Annotated[list[AlertShape], Meta(description="By name.")]
    past: Annotated[list[PastIncidentShape], Meta(description="The last incidents that are over, newest first.")]


class TestedAlertShape(ResponseShape, frozen=True, kw_only=True):
    targets: Annotated[int, Meta(description="Number of targets to which a test message is on its way.")]


def alert_shape(status: AlertStatus, *, shows_secrets: bool) -> AlertShape:
    rule, state = status.rule, status.state
    targets = rule.targets if shows_secrets else tuple(map(hide_secret, rule.targets))
    fields = {name: getattr(rule, name) for name in _RULE_FIELDS} | {
        name: getattr(state, name) for name in _STATE_FIELDS
    }
    return AlertShape(threshold=float(rule.threshold), targets=targets, figure=float(state.value), **fields)


def past_incident_shape(past: PastIncident) -> PastIncidentShape:
    return PastIncidentShape(**msgspec.structs.asdict(past))


def alerts_of(shape: AlertsShape, past: int) -> Alerts:
    return Alerts(
        now_ms=shape.now_ms,
        rules=[alert_status_of(alert) for alert in shape.alerts],
        past=[PastIncident(**msgspec.structs.asdict(one)) for one in shape.past[:past]],
    )


def alert_status_of(shape: AlertShape) -> AlertStatus:
    rule = {name: getattr(shape, name) for name in (*_RULE_FIELDS, "threshold", "targets")}
    state = {name: getattr(shape, name) for name in _STATE_FIELDS}
    return AlertStatus(rule=AlertRule(**rule), state=AlertState(value=shape.figure, **state))
