"""Checks of alert rules."""

from __future__ import annotations

import math
from typing import Any

from windlass.core.errors import BadInput, TooLarge
from windlass.core.validation.bounds import DURATION_MAX, NOTE_MAX, QUEUE_MAX, WILDCARDS_MAX
from windlass.core.validation.values import check_boolean, check_instance, check_integer, check_new_name, check_text

from .rule import IN_MS, KINDS, WITH_PATTERN, WITH_WINDOW, AlertRule
from .targets import parse_target

ALERT_NAME_MAX = 128
ALERTS_MAX = 200  # rules of a deployment
TARGETS_MAX = 10
THRESHOLD_MAX = 2.0**43
WINDOW_MIN_MS, WINDOW_MAX_MS = 60_000, 86_400_000
MUTE_MAX_MS = 365 * 86_400_000


def check_alert_name(name: Any) -> None:
    check_text("name", name, ALERT_NAME_MAX)


def check_alert_rule(rule: Any) -> None:
    check_instance("rule", rule, AlertRule)
    check_new_name("name", rule.name, ALERT_NAME_MAX)
    if rule.kind not in KINDS:
        raise BadInput(f"kind must be one of {', '.join(KINDS)}, not {rule.kind!r}.")
    _check_pattern(rule)
    _check_threshold(rule)
    check_integer("window_ms", rule.window_ms, WINDOW_MIN_MS, WINDOW_MAX_MS)
    if rule.kind in WITH_WINDOW and rule.window_ms % WINDOW_MIN_MS:
        raise BadInput("window_ms must be whole minutes, as failures are counted by the minute.")
    check_integer("for_ms", rule.for_ms, 0, DURATION_MAX)
    check_integer("cool_down_ms", rule.cool_down_ms, 0, DURATION_MAX)
    _check_targets(rule.targets)
    check_new_name("note", rule.note, NOTE_MAX, may_be_empty=True)
    check_boolean("is_enabled", rule.is_enabled)
    check_boolean("is_declared", rule.is_declared)


def _check_pattern(rule: AlertRule) -> None:
    check_new_name("pattern", rule.pattern, QUEUE_MAX, may_be_empty=True)
    if rule.pattern and rule.kind not in WITH_PATTERN:
        raise BadInput(f"A rule of kind {rule.kind} is about the whole deployment: leave the pattern out.")
    if rule.pattern.count("*") > WILDCARDS_MAX:
        raise TooLarge(f"A pattern may have {WILDCARDS_MAX} stars, not {rule.pattern.count('*')}.")


def _check_threshold(rule: AlertRule) -> None:
    value = rule.threshold
    is_number = type(value) in (int, float) and math.isfinite(value)
    if not is_number or not 0 < value <= THRESHOLD_MAX:
        raise BadInput(f"threshold must be a number above 0, at most {THRESHOLD_MAX:.0f}, not {value!r}.")
    if rule.kind in IN_MS and value < 1000:
        raise BadInput(f"The threshold of {rule.kind} is a duration of at least one second.")


def _check_targets(targets: Any) -> None:
    if type(targets) is not tuple:
        raise BadInput("targets must be a tuple of texts.")
    if len(targets) > TARGETS_MAX:
        raise TooLarge(f"A rule may have {TARGETS_MAX} targets, not {len(targets)}.")
    for target in targets:
        check_text("target", target, 4096)
        parse_target(target)
    if len(set(targets)) < len(targets):
        raise BadInput("A target is named twice; name each once.")


def check_mute(name: Any, for_ms: Any) -> None:
    check_alert_name(name)
    check_integer("for_ms", for_ms, 0, MUTE_MAX_MS)
