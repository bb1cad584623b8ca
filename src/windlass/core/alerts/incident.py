"""Incidents of alert rules: a rule has at most one. `decide` moves it; the process that stores the move sends its
message."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from .rule import AlertKind, AlertRule

Phase: TypeAlias = Literal["ok", "pending", "open"]
AlertEvent: TypeAlias = Literal["alert_opened", "alert_over", "alert_test"]
SUBJECTS_MAX = 10  # queues, schedules or findings that an incident names
HISTORY_MAX = 200  # past incidents that are kept


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """Measured figure of a rule."""

    value: float
    subjects: tuple[str, ...] = ()  # what is concerned, the worst first
    # Of rules that watch a counter: its value, and when it grew last. The next measurement compares with them.
    counter: int = 0
    grew_at_ms: int = 0
    is_cut: bool = False  # more queues or schedules match than are looked at


class AlertState(msgspec.Struct, frozen=True, kw_only=True):
    """Stored state of a rule. Fields may be added at the end, with defaults."""

    revision: int = 0  # grows with each stored state, so that a state never returns
    phase: Phase = "ok"
    since_ms: int = 0  # since when the condition holds
    opened_at_ms: int = 0
    is_announced: bool = False  # the message that the incident is open was sent
    quiet_until_ms: int = 0  # end of the cool-down
    suppressed: int = 0  # incidents that were not announced since the last message
    muted_until_ms: int = 0
    value: float = 0.0  # of the last measurement
    peak: float = 0.0  # of the incident
    subjects: tuple[str, ...] = ()
    counter: int = 0
    grew_at_ms: int = 0
    is_cut: bool = False

    def is_muted(self, now_ms: int) -> bool:
        return now_ms < self.muted_until_ms


class PastIncident(msgspec.Struct, frozen=True, kw_only=True):
    name: str  # of the rule
    kind: AlertKind
    pattern: str = ""
    opened_at_ms: int
    over_at_ms: int
    peak: float
    subjects: tuple[str, ...] = ()
    is_announced: bool = False


class AlertStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A rule with its state."""

    rule: AlertRule
    state: AlertState


class Alerts(msgspec.Struct, frozen=True, kw_only=True):
    """All rules with their states, and the last past incidents, newest first."""

    now_ms: int
    rules: list[AlertStatus]
    past: list[PastIncident]


class Transition(msgspec.Struct, frozen=True, kw_only=True):
    """Next state of a rule, with the message that belongs to it and the incident that it ends."""

    state: AlertState
    event: AlertEvent | None = None
    past: PastIncident | None = None


def decide(rule: AlertRule, figure: Figure | None, state: AlertState, now_ms: int) -> Transition | None:
    """Return how the state of a rule changes with a measurement. None: it does not change.

    `figure` None: it could not be measured, so an incident neither opens nor ends, unless the rule is disabled."""
    if not rule.is_enabled:
        return _end(rule, state, now_ms) if state.phase != "ok" else None
    if figure is None:
        return None
    known = replace(state, counter=figure.counter, grew_at_ms=figure.grew_at_ms)
    if figure.value >= rule.threshold:
        return _changed(state, _hold(rule, figure, known, now_ms))
    if state.phase == "ok":
        return _changed(state, Transition(state=replace(known, value=0, subjects=())))
    return _end(rule, known, now_ms)


def _hold(rule: AlertRule, figure: Figure, state: AlertState, now_ms: int) -> Transition:
    """Return the next state while the condition holds."""
    if state.phase == "ok":
        state = replace(state, phase="pending", since_ms=now_ms, peak=0)
    state = replace(
        state, value=figure.value, peak=max(state.peak, figure.value), subjects=figure.subjects[:SUBJECTS_MAX],
        is_cut=figure.is_cut,
    )  # fmt: skip
    if state.phase == "pending" and now_ms - state.since_ms >= rule.for_ms:
        state = replace(state, phase="open", opened_at_ms=now_ms, is_announced=False)
    # An incident that opened in the cool-down, or while the rule was muted, is announced if it outlasts that time.
    may_announce = now_ms >= state.quiet_until_ms and not state.is_muted(now_ms)
    if state.phase == "open" and not state.is_announced and may_announce:
        return Transition(state=replace(state, is_announced=True), event="alert_opened")
    return Transition(state=state)


def _end(rule: AlertRule, state: AlertState, now_ms: int) -> Transition:
    """Return the state after the condition has ended. The end is announced exactly if the beginning was."""
    ended = replace(
        state, revision=state.revision + 1, phase="ok", since_ms=0, opened_at_ms=0, is_announced=False, value=0, peak=0,
        subjects=(), is_cut=False,
    )  # fmt: skip
    if state.phase == "pending":
        return Transition(state=ended)
    past = end_incident(rule, state, now_ms)
    if not state.is_announced:
        return Transition(state=replace(ended, suppressed=state.suppressed + 1), past=past)
    quiet_until_ms = now_ms + rule.cool_down_ms
    return Transition(state=replace(ended, quiet_until_ms=quiet_until_ms, suppressed=0), event="alert_over", past=past)


def end_incident(rule: AlertRule, state: AlertState, now_ms: int) -> PastIncident:
    return PastIncident(
        name=rule.name, kind=rule.kind, pattern=rule.pattern, opened_at_ms=state.opened_at_ms, over_at_ms=now_ms,
        peak=state.peak, subjects=state.subjects, is_announced=state.is_announced,
    )  # fmt: skip


def _changed(before: AlertState, transition: Transition) -> Transition | None:
    if transition.state == before:
        return None
    return replace(transition, state=replace(transition.state, revision=before.revision + 1))
