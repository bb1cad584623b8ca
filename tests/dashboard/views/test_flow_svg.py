"""The graph as SVG: a link for each step, its state in words, causes of steps that could not run, speed."""

from __future__ import annotations

import time
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dashboard.views.made_flows import chain, group, layers, make_flow, make_step, random_flow
from windlass.core.flow import Flow
from windlass.core.states import State
from windlass.dashboard.views.flow.fold import fold, show_all
from windlass.dashboard.views.flow.svg import render_graph
from windlass.dashboard.views.gantt import chart_of, draw_row

LOOSE_S = 2.0  # the page must take less than 0.2 s; other machines are slower
UNFOLDED = "/flows/x?steps=all"


def render(flow: Flow, *, shows_all: bool = False) -> ElementTree.Element:
    graph = show_all(flow.steps) if shows_all else fold(flow.steps)
    text = render_graph(graph, flow.steps, flow.now_ms, lambda key: f"/jobs/{key}", UNFOLDED)
    return ElementTree.fromstring(text)  # noqa: S314 (it is ours)


def boxes(drawn: ElementTree.Element) -> list[ElementTree.Element]:
    return [element for element in drawn.iter() if element.get("class", "").startswith("box box-")]


def texts(box: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in box.iter("text")]


@given(st.integers(1, 200), st.integers(0, 300), st.integers(0, 1000))
def test_every_step_is_drawn_once_or_counted_in_a_fold(count: int, edges: int, seed: int) -> None:
    flow = random_flow(count, edges, seed)
    folds = [box for box in boxes(render(flow)) if "is-fold" in box.attrib["class"]]
    counted = [int(texts(box)[0].strip("+ more").replace("\u202f", "")) for box in folds]
    steps = [box for box in boxes(render(flow)) if "is-fold" not in box.attrib["class"]]
    keys = [box.attrib["data-key"] for box in steps]
    assert len(set(keys)) == len(keys)
    assert len(keys) + sum(counted) == count
    assert len(boxes(render(flow, shows_all=True))) == count


def test_a_step_links_to_its_job_and_tells_its_state_in_words() -> None:
    drawn = render(make_flow([make_step(0), make_step(1, [0], State.RUNNING, progress=0.4, attempt=2)]))
    first, second = boxes(drawn)
    assert first.get("href") == f"/jobs/{first.attrib['data-key']}"
    assert texts(first) == ["step 0", "finished · 800\u202fms"]
    assert texts(second)[1].startswith("running 40%")
    assert "attempt 2" in second.attrib["aria-label"]
    assert drawn.attrib["aria-label"] == "Graph of 2 steps in 2 layers, from left to right"


def test_a_step_without_a_record_is_no_link() -> None:
    (box,) = boxes(render(make_flow([make_step(0, state=None)])))
    assert box.tag == "g"
    assert texts(box) == ["step 0", "deleted"]


def test_a_consequence_is_muted_and_names_its_cause() -> None:
    drawn = boxes(render(chain(4, fails_at=1)))
    assert "is-cause" in drawn[1].attrib["class"]
    for box in drawn[2:]:
        assert "box-consequence" in box.attrib["class"]
        assert texts(box)[1] == "because of step 1"
        assert "not run, because step 1 failed" in box.attrib["aria-label"]


def test_hostile_texts_are_escaped() -> None:
    hostile = '"><script>a()</script>\u202e'
    (box,) = boxes(render(make_flow([make_step(0, step=hostile, name=hostile, queue=hostile)])))
    assert "<script>" in box.attrib["aria-label"]
    assert "\u202e" not in ElementTree.tostring(box, encoding="unicode")


def test_a_fold_leads_to_the_graph_without_folds() -> None:
    (folded,) = [box for box in boxes(render(group(200))) if "is-fold" in box.attrib["class"]]
    assert folded.get("href") == UNFOLDED
    assert "finished" in folded.attrib["aria-label"]


@pytest.mark.parametrize(
    "flow",
    [chain(5), layers(200, 10), chain(2000, 1000), group(2000), layers(2000, 50), random_flow(2000, 20_000)],
    ids=["5", "200", "chain", "group", "layers", "random"],
)
@pytest.mark.parametrize("shows_all", [False, True], ids=["folded", "all"])
def test_graph_and_chart_are_drawn_in_time(flow: Flow, shows_all: bool) -> None:
    """With 2,000 steps they take 10 to 130 ms on an idle machine. The bound is loose."""
    began_s = time.thread_time()
    render(flow, shows_all=shows_all)
    chart = chart_of(flow)
    for row in chart.rows:
        draw_row(row, chart)
    assert time.thread_time() - began_s < LOOSE_S
