"""Decisions about incidents: no two openings without an end, no message twice, no message within the cool-down."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from windlass.core.alerts.incident import AlertState, Figure, Transition, decide
from windlass.core.alerts.rule import AlertRule

MINUTE = 60_000


def rule_of(**fields: Any) -> AlertRule:
    return AlertRule(**({"name": "r", "kind": "no_worker", "threshold": 1} | fields))


def step(rule: AlertRule, state: AlertState, value: float | None, now_ms: int) -> Transition:
    figure = None if value is None else Figure(value=value, subjects=("q",) if value else ())
    return decide(rule, figure, state, now_ms) or Transition(state=state)


Steps = st.lists(
    st.tuples(
        st.integers(0, 20 * MINUTE), st.sampled_from([None, 0, 0, 1, 5]), st.sampled_from(["", "mute", "disable"])
    ),
    max_size=60,
)


@given(for_ms=st.sampled_from([0, 5 * MINUTE]), cool_down_ms=st.sampled_from([0, 30 * MINUTE]), steps=Steps)
def test_every_history_is_told_once(for_ms: int, cool_down_ms: int, steps: list[tuple[int, float | None, str]]) -> None:
    rule, state, now_ms = rule_of(for_ms=for_ms, cool_down_ms=cool_down_ms), AlertState(), 1_000_000
    is_told, told_over_ms, held_since = False, None, None
    for pause_ms, value, act in steps:
        now_ms += pause_ms
        if act == "mute":
            state = replace(state, revision=state.revision + 1, muted_until_ms=now_ms + 10 * MINUTE)
        current = replace(rule, is_enabled=act != "disable")
        before, transition = state, step(current, state, value, now_ms)
        state = transition.state
        holds = current.is_enabled and (value > 0 if value is not None else before.phase != "ok")
        held_since = (held_since if held_since is not None else now_ms) if holds else None
        if transition.event == "alert_opened":
            assert not is_told, "two openings without an end"
            assert held_since is not None
            assert now_ms - held_since >= for_ms
            assert told_over_ms is None or now_ms - told_over_ms >= cool_down_ms
            assert not before.is_muted(now_ms)
            is_told = True
        elif transition.event == "alert_over":
            assert is_told, "an end without an opening"
            is_told, told_over_ms = False, now_ms
        assert state.is_announced == is_told
        assert not is_told or state.phase == "open"
        assert (transition.past is not None) == (before.phase == "open" and state.phase == "ok")
        assert state == before or state.revision > before.revision


def test_an_incident_opens_once_the_condition_has_held() -> None:
    rule = rule_of(for_ms=MINUTE)
    first = step(rule, AlertState(), 3, 1000)
    assert (first.state.phase, first.event) == ("pending", None)
    second = step(rule, first.state, 2, 1000 + MINUTE)
    assert (second.state.phase, second.event) == ("open", "alert_opened")
    assert (second.state.since_ms, second.state.peak, second.state.value) == (1000, 3, 2)
    assert decide(rule, Figure(value=2, subjects=("q",)), second.state, 2000 + MINUTE) is None
    over = step(rule, second.state, 0, 2000 + MINUTE)
    assert over.event == "alert_over"
    assert over.past is not None
    assert (over.past.peak, over.past.is_announced) == (3, True)


def test_a_condition_that_ends_early_opens_nothing() -> None:
    rule = rule_of(for_ms=MINUTE)
    pending = step(rule, AlertState(), 3, 1000).state
    ended = step(rule, pending, 0, 2000)
    assert (ended.state.phase, ended.event, ended.past) == ("ok", None, None)
    assert step(rule, ended.state, 3, 1000 + MINUTE).state.phase == "pending"


def test_a_return_within_the_cool_down_is_counted_and_announced_if_it_stays() -> None:
    rule = rule_of(cool_down_ms=30 * MINUTE)
    state = step(rule, step(rule, AlertState(), 1, 1000).state, 0, 2000).state
    returned = step(rule, state, 1, 3000)
    assert (returned.state.phase, returned.event) == ("open", None)
    gone = step(rule, returned.state, 0, 4000)
    assert (gone.event, gone.state.suppressed) == (None, 1)
    assert gone.past is not None
    assert not gone.past.is_announced
    stays = step(rule, gone.state, 1, 5000).state
    late = step(rule, stays, 1, 2000 + 30 * MINUTE)
    assert (late.event, late.state.suppressed) == ("alert_opened", 1)


def test_a_muted_incident_is_announced_when_the_mute_ends_and_its_end_always() -> None:
    rule = rule_of()
    muted = AlertState(muted_until_ms=10_000)
    opened = step(rule, muted, 1, 1000)
    assert (opened.state.phase, opened.event) == ("open", None)
    announced = step(rule, opened.state, 1, 10_000)
    assert announced.event == "alert_opened"
    assert step(rule, replace(announced.state, muted_until_ms=99_000), 0, 11_000).event == "alert_over"


@pytest.mark.parametrize(("value", "phase"), [(None, "open"), (0, "ok")])
def test_a_figure_that_cannot_be_read_ends_nothing(value: float | None, phase: str) -> None:
    opened = step(rule_of(), AlertState(), 1, 1000).state
    assert step(rule_of(), opened, value, 2000).state.phase == phase


def test_a_disabled_rule_ends_its_incident_with_a_message() -> None:
    opened = step(rule_of(), AlertState(), 1, 1000).state
    assert step(rule_of(is_enabled=False), opened, 1, 2000).event == "alert_over"
    assert decide(rule_of(is_enabled=False), Figure(value=1), AlertState(), 2000) is None
