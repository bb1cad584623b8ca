"""Gantt chart of a flow: its rows, the parts of a bar, and its time axis."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dashboard.views.made_flows import CREATED_AT_MS, NOW_MS, chain, layers, make_flow, make_step, random_flow
from windlass.core.flow import FlowStep
from windlass.core.states import State
from windlass.dashboard.views.gantt import ROWS_MAX, TICKS_MAX, Gantt, chart_of, draw_axis, draw_row, ticks


def timed(number: int, after: list[int], state: State, began_s: int | None, ended_s: int | None) -> FlowStep:
    began_ms = None if began_s is None else CREATED_AT_MS + 1000 * began_s
    ended_ms = None if ended_s is None else CREATED_AT_MS + 1000 * ended_s
    return make_step(number, after, state, started_at_ms=began_ms, ended_at_ms=ended_ms)


def parts(step: FlowStep, *others: FlowStep) -> list[tuple[str, float, float]]:
    rows = chart_of(make_flow([*others, step])).rows
    (row,) = [row for row in rows if row.step is step]
    return [(bar.kind, (bar.from_ms - CREATED_AT_MS) / 1000, (bar.to_ms - CREATED_AT_MS) / 1000) for bar in row.bars]


def test_waits_for_steps_and_in_the_queue_differ_from_the_run() -> None:
    first = timed(0, [], State.FINISHED, 5, 20)
    assert parts(first) == [("wait", 0, 5), ("good", 5, 20)]
    assert parts(timed(1, [0], State.FAILED, 25, 60), first) == [("blocked", 0, 20), ("wait", 20, 25), ("bad", 25, 60)]


def test_steps_that_have_not_ended_last_until_now() -> None:
    now_s = (NOW_MS - CREATED_AT_MS) / 1000
    first = timed(0, [], State.RUNNING, 5, None)
    assert parts(first) == [("wait", 0, 5), ("run", 5, now_s)]
    assert parts(timed(1, [0], State.WAITING, None, None), first) == [("blocked", 0, now_s)]
    assert parts(timed(1, [], State.QUEUED, None, None), first) == [("wait", 0, now_s)]


def test_a_consequence_only_waited() -> None:
    steps = chain(3, fails_at=1).steps
    ((kind, _, _),) = parts(steps[2], *steps[:2])
    assert kind == "blocked"


def test_a_short_run_is_visible() -> None:
    flow = make_flow([timed(0, [], State.FINISHED, 0, 0), timed(1, [], State.FINISHED, 0, 86_400)])
    chart = chart_of(flow)
    drawn = ElementTree.fromstring(draw_row(chart.rows[0], chart))  # noqa: S314 (it is ours)
    (bar,) = drawn.iter("rect")
    assert float(bar.attrib["width"].rstrip("%")) > 0


def test_of_many_steps_failed_running_and_long_ones_have_a_row() -> None:
    flow = layers(2000, 50)
    flow.steps[700] = make_step(700, state=State.FAILED)
    flow.steps[701] = make_step(701, started_at_ms=CREATED_AT_MS, ended_at_ms=NOW_MS)
    chart = chart_of(flow)
    shown = [row.step for row in chart.rows]
    assert len(shown) == ROWS_MAX
    assert chart.left_out == 2000 - ROWS_MAX
    assert flow.steps[700] in shown
    assert flow.steps[701] in shown
    assert {step.job_id for step in flow.steps if step.state is State.RUNNING} <= {step.job_id for step in shown}


@given(st.integers(1, 60), st.integers(0, 1000))
def test_bars_are_inside_the_chart(count: int, seed: int) -> None:
    chart = chart_of(random_flow(count, count, seed))
    assert len(chart.rows) == count
    for row in chart.rows:
        for bar in ElementTree.fromstring(draw_row(row, chart)).iter("rect"):  # noqa: S314 (it is ours)
            left, width = (float(bar.attrib[name].rstrip("%")) for name in ("x", "width"))
            assert left >= 0
            assert left + width <= 100.01
            assert bar.find("title") is not None


@pytest.mark.parametrize("length_ms", [1, 7, 999, 61_000, 7_200_000, 86_400_000, 40 * 86_400_000, 10**12])
def test_the_axis_has_few_round_ticks(length_ms: int) -> None:
    chart = Gantt([], 0, CREATED_AT_MS, CREATED_AT_MS + length_ms)
    found = ticks(chart)
    assert 1 < len(found) <= TICKS_MAX + 1
    assert found[-1] <= length_ms
    axis = ElementTree.fromstring(draw_axis(chart))  # noqa: S314 (it is ours)
    assert len(list(axis.iter("text"))) == len(found)
