"""Folds of large graphs: every step is in exactly one box, and important steps stay visible."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dashboard.views.made_flows import chain, group, layers, make_flow, make_step, random_flow
from windlass.core.flow import Flow
from windlass.core.states import State
from windlass.dashboard.views.flow.fold import ALL_SHOWN_MAX, LAYER_MAX, LAYERS_MAX, FlowGraph, fold, show_all
from windlass.dashboard.views.flow.layered_layout import assign_layers
from windlass.dashboard.views.flow.steps import IMPORTANCE

LARGE = {
    "chain": chain(2000, 1000),
    "group": group(2000, (*[State.FINISHED] * 50, State.FAILED, State.RUNNING)),
    "layers": layers(2000, 50),
    "deep": layers(2000, 2),
    "random": random_flow(2000, 20_000),
    "no edges": make_flow([make_step(number) for number in range(2000)]),
}


def check_partition(flow: Flow, graph: FlowGraph) -> None:
    counted = Counter(step.job_id for box in graph.boxes for step in box)
    assert counted == Counter(step.job_id for step in flow.steps)
    assert all(graph.boxes)
    place = {step.job_id: at for at, box in enumerate(graph.boxes) for step in box}
    between = {(place[before], place[step.job_id]) for step in flow.steps for before in step.after}
    assert set(graph.edges) == {(source, target) for source, target in between if source != target}


@given(st.integers(1, 300), st.integers(0, 600), st.integers(0, 1000))
def test_every_step_is_in_exactly_one_box(count: int, edges: int, seed: int) -> None:
    flow = random_flow(count, edges, seed)
    for graph in (fold(flow.steps), show_all(flow.steps)):
        check_partition(flow, graph)
        assign_layers(len(graph.boxes), graph.edges)  # raises for a cycle


@pytest.mark.parametrize("flow", LARGE.values(), ids=LARGE.keys())
def test_a_large_flow_has_few_boxes(flow: Flow) -> None:
    graph = fold(flow.steps)
    check_partition(flow, graph)
    rows = Counter(assign_layers(len(graph.boxes), graph.edges))
    assert len(rows) <= LAYERS_MAX
    assert max(rows.values()) <= LAYER_MAX + len(IMPORTANCE)
    assert graph.is_folded


def test_a_small_flow_is_not_folded() -> None:
    assert not fold(chain(ALL_SHOWN_MAX).steps).is_folded
    assert not show_all(LARGE["chain"].steps).is_folded


def test_a_long_chain_shows_its_ends_and_the_step_that_failed() -> None:
    boxes = fold(LARGE["chain"].steps).boxes
    shown = {box[0].label for box in boxes if len(box) == 1}
    assert {"step 0", "step 999", "step 1000", "step 1001", "step 1999"} <= shown
    assert sorted(len(box) for box in boxes if len(box) > 1) == [997, 998]


def test_a_wide_layer_shows_some_steps_of_each_state_and_folds_the_rest_by_state() -> None:
    boxes = fold(LARGE["group"].steps).boxes
    folds = [box for box in boxes if len(box) > 1]
    assert len(folds) == 3
    for box in folds:
        assert len({step.state for step in box}) == 1
    shown = Counter(box[0].state for box in boxes if len(box) == 1)
    assert min(shown[State.FAILED], shown[State.RUNNING], shown[State.FINISHED]) >= 3


def test_the_only_failed_step_of_a_deep_graph_stays_visible() -> None:
    steps = list(layers(1000, 2).steps)
    finished = [make_step(at, [int.from_bytes(before) for before in step.after]) for at, step in enumerate(steps)]
    finished[501] = make_step(501, [int.from_bytes(before) for before in steps[501].after], State.FAILED)
    boxes = fold(finished).boxes
    assert [finished[501]] in boxes
