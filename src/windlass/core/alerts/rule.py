"""Alert rules: what is watched, from which figure on, and who is notified."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import msgspec

from windlass.core.access.tokens import is_queue_allowed
from windlass.core.text.durations import format_duration

AlertKind: TypeAlias = Literal[
    "failures", "oldest_age", "no_worker", "schedule_missed", "callback_given_up", "engine_risk"
]
KINDS: tuple[AlertKind, ...] = get_args(AlertKind)
OF_QUEUES: frozenset[AlertKind] = frozenset({"failures", "oldest_age", "no_worker"})
WITH_PATTERN: frozenset[AlertKind] = OF_QUEUES | {"schedule_missed"}
WITH_WINDOW: frozenset[AlertKind] = frozenset({"failures", "schedule_missed", "callback_given_up"})
IN_MS: frozenset[AlertKind] = frozenset({"oldest_age", "schedule_missed"})  # kinds whose figure is a duration

_UNITS: dict[AlertKind, tuple[str, str]] = {
    "failures": ("failure per minute", "failures per minute"),
    "no_worker": ("waiting job", "waiting jobs"),
    "callback_given_up": ("callback given up", "callbacks given up"),
    "engine_risk": ("risk of the engine", "risks of the engine"),
}
MINUTE_MS = 60_000
WINDOW_MS = 10 * MINUTE_MS
COOL_DOWN_MS = 30 * MINUTE_MS

DEFAULT_THRESHOLDS: dict[AlertKind, float] = {
    "failures": 1,
    "oldest_age": 10 * MINUTE_MS,
    "no_worker": 1,
    "schedule_missed": MINUTE_MS,
    "callback_given_up": 1,
    "engine_risk": 1,
}


class AlertRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule. Its condition holds while its figure reaches the threshold."""

    name: str  # unique in the deployment
    kind: AlertKind
    pattern: str = ""  # of queues or schedules, with *; empty: all
    # failures: per minute; oldest_age: age in ms; no_worker: waiting jobs; schedule_missed: lateness in ms;
    # callback_given_up: callbacks; engine_risk: findings
    threshold: float = 1
    window_ms: int = WINDOW_MS  # how far back failures, missed occurrences and given-up callbacks count
    for_ms: int = 0  # how long the condition must hold before an incident opens
    cool_down_ms: int = COOL_DOWN_MS  # an incident that returns within it does not notify again
    targets: tuple[str, ...] = ()  # https://…, slack:https://…, mailto:…
    note: str = ""  # added to the messages: what to do, or where it is written
    is_enabled: bool = True
    is_declared: bool = False  # it comes from the settings of a server, and is changed there

    @property
    def is_of_queues(self) -> bool:
        return self.kind in OF_QUEUES

    def is_visible_to(self, queues: tuple[str, ...]) -> bool:
        """Return whether a token for these queues may see the rule: each queue that the rule may match is one of them.

        A star of the rule's pattern is an ordinary character here, so only a star of the token's pattern covers it."""
        return not queues or (self.is_of_queues and bool(self.pattern) and is_queue_allowed(self.pattern, queues))


def describe_threshold(rule: AlertRule) -> str:
    """Return the condition of a rule as words."""
    value, where = format_figure(rule.kind, rule.threshold), f" of {rule.pattern}" if rule.pattern else ""
    match rule.kind:
        case "failures":
            return f"{value} or more{where}, over {format_duration(rule.window_ms)}"
        case "oldest_age":
            return f"oldest waiting job{where} {value} or older"
        case "no_worker":
            return f"{value} or more{where} without a worker"
        case "schedule_missed":
            return f"an occurrence{where} {value} late, or missed"
        case "callback_given_up":
            return f"{value} or more within {format_duration(rule.window_ms)}"
        case _:
            return f"{value} or more"


def format_figure(kind: AlertKind, figure: float) -> str:
    """Return a figure with its unit."""
    if kind in IN_MS:
        return _format_ms(figure)
    number = f"{figure:,.2f}".rstrip("0").rstrip(".") if figure >= 0.01 else f"{figure:.2g}"
    one, many = _UNITS[kind]
    return f"{number} {one if figure == 1 else many}"


def describe_figure(kind: AlertKind, figure: float) -> str:
    """Return a figure as words that say what was measured."""
    value = format_figure(kind, figure)
    return {"oldest_age": f"oldest job waits {value}", "schedule_missed": f"{value} late"}.get(kind, value)


def _format_ms(figure: float) -> str:
    """Format a measured duration in at most two units: 1 h 5 min."""
    seconds = int(figure) // 1000
    if seconds < MINUTE_MS // 1000:
        return f"{seconds} s"
    minutes = seconds // 60
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{hours // 24} d"
