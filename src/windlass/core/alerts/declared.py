"""Alert rules as tables: the form of settings files, of presets and of the command line, with durations as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass.core.errors import BadInput, TooLarge
from windlass.core.text.durations import parse_duration_ms

from .rule import DEFAULT_THRESHOLDS, IN_MS, KINDS, AlertRule
from .validation import ALERTS_MAX, check_alert_rule

_DURATIONS = {"window": "window_ms", "for": "for_ms", "cool_down": "cool_down_ms"}
_FIELDS = ("kind", "queue", "schedule", "threshold", *_DURATIONS, "to", "note", "enabled")


def parse_tables(tables: Any) -> list[AlertRule]:
    """Return the rules of a settings file: a table per rule."""
    if not isinstance(tables, Mapping) or not all(isinstance(table, Mapping) for table in tables.values()):
        raise BadInput("it must have a table for each rule, such as [mail-failures].")
    if len(tables) > ALERTS_MAX:
        raise BadInput(f"there may be {ALERTS_MAX} alert rules, not {len(tables)}.")
    return [_parse_named(name, table) for name, table in tables.items()]


def _parse_named(name: str, table: Mapping[str, Any]) -> AlertRule:
    try:
        return parse_table(name, table)
    except (BadInput, TooLarge) as error:
        raise BadInput(f"rule {name!r}: {error}") from error


def parse_table(name: str, table: Mapping[str, Any]) -> AlertRule:
    """Return the rule of one table."""
    if unknown := next((field for field in table if field not in _FIELDS), None):
        raise BadInput(f"{unknown!r} is not a field of a rule; the fields are {', '.join(_FIELDS)}.")
    kind = table.get("kind")
    if kind not in KINDS:
        raise BadInput(f"kind must be one of {', '.join(KINDS)}, not {kind!r}.")
    fields: dict[str, Any] = {to: _duration(field, table[field]) for field, to in _DURATIONS.items() if field in table}
    fields |= {to: table[field] for field, to in (("note", "note"), ("enabled", "is_enabled")) if field in table}
    if "queue" in table and "schedule" in table:
        raise BadInput("Give queue or schedule, not both.")
    threshold = table.get("threshold", DEFAULT_THRESHOLDS[kind])
    rule = AlertRule(
        name=name,
        kind=kind,
        pattern=table.get("queue", table.get("schedule", "")),
        threshold=_duration("threshold", threshold) if kind in IN_MS else threshold,
        targets=_targets(table.get("to", ())),
        **fields,
    )
    _check_pattern_field(kind, table)
    check_alert_rule(rule)
    return rule


def _check_pattern_field(kind: str, table: Mapping[str, Any]) -> None:
    wanted = "schedule" if kind == "schedule_missed" else "queue"
    if any(field in table and field != wanted for field in ("queue", "schedule")):
        raise BadInput(
            f"A rule of kind {kind} is about a {wanted}." if wanted == "schedule" else "Give queue, not schedule."
        )


def _duration(field: str, value: Any) -> int:
    if type(value) is int:
        return value
    if not isinstance(value, str):
        raise BadInput(f"{field} must be a duration such as 10m.")
    return parse_duration_ms(value)


def _targets(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list | tuple) or not all(isinstance(target, str) for target in value):
        raise BadInput("to must be a target, or a list of targets.")
    return tuple(value)
