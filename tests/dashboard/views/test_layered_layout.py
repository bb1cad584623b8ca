"""Layout in layers: boxes do not overlap, edges go to the right, and everything is inside the drawing."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.dashboard.views.flow.layered_layout import (
    BENDS_MAX,
    BOX_HEIGHT,
    BOX_WIDTH,
    GAP_Y,
    Edge,
    assign_layers,
    lay_out,
    spread,
)

CLOSE = 1e-6


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, list[Edge]]:
    count = draw(st.integers(1, 40))
    order = draw(st.permutations(range(count)))
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))
    found = draw(st.sets(pairs, max_size=120))
    return count, sorted({(order[min(pair)], order[max(pair)]) for pair in found if pair[0] != pair[1]})


@given(graphs())
def test_every_edge_goes_to_a_higher_layer(graph: tuple[int, list[Edge]]) -> None:
    count, edges = graph
    layers = assign_layers(count, edges)
    assert all(layers[source] < layers[target] for source, target in edges)
    targets = {target for _, target in edges}
    for box in range(count):  # and no layer is higher than it must be
        before = [layers[source] for source, target in edges if target == box]
        assert layers[box] == (max(before) + 1 if box in targets else 0)


@given(graphs())
def test_boxes_do_not_overlap_and_are_inside(graph: tuple[int, list[Edge]]) -> None:
    layout = lay_out(*graph)
    by_layer: dict[float, list[float]] = {}
    for x, y in layout.corners:
        assert 0 <= x <= layout.width - BOX_WIDTH
        assert 0 <= y <= layout.height - BOX_HEIGHT
        by_layer.setdefault(x, []).append(y)
    for ys in by_layer.values():
        assert all(lower - upper >= BOX_HEIGHT + GAP_Y - CLOSE for upper, lower in pairwise(sorted(ys)))
    assert len(by_layer) == max(layout.layers) + 1
    lefts = sorted(by_layer)
    assert all(right - left > BOX_WIDTH for left, right in pairwise(lefts))


@given(graphs())
def test_long_edges_bend_in_every_layer_that_they_cross_and_around_boxes(graph: tuple[int, list[Edge]]) -> None:
    count, edges = graph
    layout = lay_out(count, edges)
    for source, target in edges:
        points = layout.bends.get((source, target), [])
        assert len(points) == layout.layers[target] - layout.layers[source] - 1
        for x, y in points:
            assert 0 <= y <= layout.height
            crossed = [corner_y for corner_x, corner_y in layout.corners if corner_x == x - BOX_WIDTH / 2]
            assert all(y <= top - CLOSE or y >= top + BOX_HEIGHT + CLOSE for top in crossed)


def test_edges_are_single_curves_when_there_are_too_many_bends() -> None:
    count = 100
    edges = [(source, target) for target in range(count) for source in range(target)]
    assert sum(target - source - 1 for source, target in edges) > BENDS_MAX
    assert lay_out(count, edges).bends == {}


def test_a_chain_is_a_straight_line() -> None:
    layout = lay_out(5, [(at, at + 1) for at in range(4)])
    assert len({y for _, y in layout.corners}) == 1


def test_parallel_chains_do_not_cross() -> None:
    """The steps of three chains, given in an order that mixes them."""
    edges = [(0, 4), (1, 3), (2, 5), (4, 6), (3, 7), (5, 8)]
    corners = lay_out(9, edges).corners
    for chain in ((0, 4, 6), (1, 3, 7), (2, 5, 8)):
        assert len({corners[box][1] for box in chain}) == 1


def test_a_cycle_is_refused() -> None:
    with pytest.raises(ValueError, match="cycle"):
        assign_layers(2, [(0, 1), (1, 0)])


def test_no_boxes() -> None:
    assert lay_out(0, []).corners == []


@given(st.lists(st.tuples(st.integers(-1000, 1000), st.integers(0, 90)), max_size=30), st.integers(0, 500))
def test_spread_keeps_order_gaps_and_room(items: list[tuple[int, int]], more: int) -> None:
    wanted, gaps = [float(place) for place, _ in items], [float(gap) for _, gap in items]
    room = sum(gaps) + more
    places = spread(wanted, gaps, room)
    assert len(places) == len(items)
    for at, (upper, lower) in enumerate(pairwise(places)):
        assert lower - upper >= gaps[at + 1] - CLOSE
    assert all(-room / 2 - CLOSE <= place <= room / 2 + CLOSE for place in places)


def test_spread_leaves_places_with_enough_room_as_they_are() -> None:
    assert spread([-50.0, 0.0, 80.0], [0.0, 40.0, 40.0], 1000) == pytest.approx([-50.0, 0.0, 80.0])
    assert spread([0.0, 0.0], [0.0, 40.0], 1000) == pytest.approx([-20.0, 20.0])
