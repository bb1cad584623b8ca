"""Form of an alert rule: typed text to a rule and back, and the presets."""

from __future__ import annotations

from collections.abc import Mapping

from windlass.core.alerts.declared import parse_table
from windlass.core.alerts.rule import DEFAULT_THRESHOLDS, IN_MS, KINDS, AlertKind, AlertRule
from windlass.core.errors import BadInput
from windlass.core.text.durations import format_duration
from windlass.dashboard.routes import Form

TITLES: dict[AlertKind, str] = {
    "failures": "Failures per minute",
    "oldest_age": "Age of the oldest waiting job",
    "no_worker": "Jobs wait and no worker takes",
    "schedule_missed": "A schedule was late or missed",
    "callback_given_up": "Callbacks were given up",
    "engine_risk": "The engine is at risk",
}


class AlertForm(Form, frozen=True, kw_only=True):
    """Fields of the form as typed text."""

    name: str = ""
    kind: str = "failures"
    pattern: str = ""
    threshold: str = ""
    window: str = "10m"
    hold: str = "0s"
    cool_down: str = "30m"
    targets: str = ""  # one per line
    note: str = ""
    enabled: bool = False
    known: str = ""  # name of the rule that is changed; empty: a new one

    def rule(self) -> AlertRule:
        kind, table = self._kind(), {"window": self.window, "for": self.hold, "cool_down": self.cool_down}
        fields: dict[str, object] = {name: text.strip() for name, text in table.items() if text.strip()}
        if self.pattern.strip():
            fields["schedule" if kind == "schedule_missed" else "queue"] = self.pattern.strip()
        if self.threshold.strip():
            fields["threshold"] = self.threshold.strip() if kind in IN_MS else _number(self.threshold.strip())
        targets = tuple(line.strip() for line in self.targets.splitlines() if line.strip())
        more = {"to": targets, "note": self.note.strip(), "enabled": self.enabled}
        return parse_table(self.name.strip(), {"kind": kind, **fields, **more})

    def _kind(self) -> AlertKind:
        for kind in KINDS:
            if kind == self.kind:
                return kind
        raise BadInput(f"kind must be one of {', '.join(KINDS)}.")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise BadInput(f"The threshold must be a number, not {text[:40]!r}.") from error


def form_of(rule: AlertRule) -> AlertForm:
    is_duration = rule.kind in IN_MS
    return AlertForm(
        name=rule.name,
        kind=rule.kind,
        pattern=rule.pattern,
        threshold=format_duration(int(rule.threshold)) if is_duration else f"{rule.threshold:g}",
        window=format_duration(rule.window_ms),
        hold=format_duration(rule.for_ms) if rule.for_ms else "0s",
        cool_down=format_duration(rule.cool_down_ms) if rule.cool_down_ms else "0s",
        targets="\n".join(rule.targets),
        note=rule.note,
        enabled=rule.is_enabled,
        known=rule.name,
    )


def _preset(kind: AlertKind, name: str, threshold: str, hold: str = "0s", note: str = "") -> AlertForm:
    return AlertForm(name=name, kind=kind, threshold=threshold, hold=hold, note=note, enabled=True)


# docs/alerts.md has the same rules as text.
PRESETS: Mapping[str, AlertForm] = {
    "failures": _preset("failures", "failures", "1", "5m"),
    "no-worker": _preset("no_worker", "no worker", "1", "2m"),
    "oldest-age": _preset("oldest_age", "jobs wait too long", "10m"),
    "schedule-missed": _preset("schedule_missed", "schedule missed", "2m"),
    "callback-given-up": _preset("callback_given_up", "callback given up", "1"),
    "engine-risk": _preset("engine_risk", "engine at risk", "1", "1m"),
}
EMPTY = AlertForm(threshold=f"{DEFAULT_THRESHOLDS['failures']:g}", enabled=True)
